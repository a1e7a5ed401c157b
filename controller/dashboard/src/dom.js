/** Elements made and kept up to date without markup in strings, so that no name can become markup. */

/** Return an element; `props` are its properties, `class`, `on` (listeners), `attr`; children are nodes or text. */
export function h(tag, props = {}, ...children) {
  const { class: classes, on = {}, attr = {}, ...rest } = props;
  const element = Object.assign(document.createElement(tag), rest);
  if (classes) element.className = classes;
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  for (const [name, value] of Object.entries(attr)) if (value !== null) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const $ = (id) => document.getElementById(id);

/** Set the text of an element if it differs, so that only changes are painted. */
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

/** Set a property of an element if it differs. */
export function set(element, name, value) {
  if (element[name] !== value) element[name] = value;
}

/**
 * Replace the children of an element if they differ: an unchanged one keeps its tooltip open.
 * The focus stays if its owner, by data-key, is among the new ones.
 */
export function fill(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const wanted = children.filter((child) => child !== null && child !== undefined);
  while (element.childNodes.length > wanted.length) element.lastChild.remove();
  wanted.forEach((child, index) => {
    const now = element.childNodes[index];
    if (now === undefined) element.append(child);
    else if (now !== child && (now.outerHTML === undefined || now.outerHTML !== child.outerHTML)) now.replaceWith(child);
  });
  if (focused !== undefined) element.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

/** Return a word with a colour and, for readers who do not see it, a sign before it. */
export function badge({ tone, label, text: title = "" }) {
  return h("span", { class: `badge ${tone}`, title }, label);
}
