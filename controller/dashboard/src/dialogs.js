/** The page's questions: yes or no, a percentage, a token. Each answers null when it is dismissed. */

import { $, h } from "./dom.js";
import { howTo, scopes } from "./gate.js";

/** Ask; `fields` are elements with the browser's own checks, `read` returns the answer for "yes". */
function ask({ title, words, yes, fields = [], more = [], read = () => true, danger = false }) {
  const dialog = $("ask");
  return new Promise((resolve) => {
    let answer = null;
    const form = h(
      "form",
      { method: "dialog", on: { submit: () => (answer = read()) } },
      h("h2", { id: "ask-title" }, title),
      ...words.map((each) => h("p", {}, each.replaceAll(" %", "\u00a0%"))),
      ...fields,
      ...more,
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel"),
        h("button", { type: "submit", class: danger ? "danger" : "main" }, yes),
      ),
    );
    dialog.replaceChildren(form);
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
    (fields[0]?.querySelector("input") ?? form.querySelector("[type=submit]")).focus();
  });
}

/** Ask for a yes. */
export async function confirmed(title, words, yes) {
  return (await ask({ title, words, yes, danger: true })) === true;
}

/** Ask for the percentage of a pin; `left` is the part without the other pins. */
export function askPin(peer, now, left) {
  const input = h("input", { id: "pin", type: "number", min: "0.1", max: String(left), step: "any", required: true, title: `Give a percentage above 0 and up to ${left}.`, value: now.toFixed(1) });
  return ask({
    title: `Pin ${peer}`,
    words: [
      "Until it is unpinned it keeps this part of the upstream's weight, whatever its load. The law shares the rest among the others.",
    ],
    yes: "Pin",
    fields: [h("label", { class: "field" }, "Percent of the upstream's weight", h("span", { class: "unit" }, input, "%"))],
    read: () => input.valueAsNumber,
  });
}

/** Ask for a token. */
export function askToken(why) {
  const input = h("input", { id: "token", type: "password", required: true, pattern: ".*\\S.*", title: "Paste the token.", autocomplete: "off", spellcheck: false });
  return ask({
    title: "A token is needed",
    words: [why],
    yes: "Use it",
    fields: [h("label", { class: "field" }, "Token", input)],
    more: [h("details", {}, h("summary", {}, "What is a token, and how do I get one?"), scopes(), ...howTo())],
    read: () => input.value.trim(),
  });
}

const box = h("div", { id: "toast", class: "toast", hidden: true, attr: { role: "status" } });
let fading;

/** Show a message for a few seconds; with `undo`, with a button to undo the change. */
export function toast(words, { undo = null, bad = false } = {}) {
  // Beside an open dialog nothing can be pressed.
  (document.querySelector("dialog[open]") ?? document.body).append(box);
  const button = undo && h("button", { type: "button", on: { click: () => ((box.hidden = true), undo()) } }, "Undo");
  box.replaceChildren(...[h("span", {}, words), button].filter(Boolean));
  box.classList.toggle("bad", bad);
  box.hidden = false;
  clearTimeout(fading);
  fading = setTimeout(() => (box.hidden = true), bad ? 15_000 : 8_000);
}
