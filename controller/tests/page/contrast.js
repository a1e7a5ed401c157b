/* Returns the lowest contrast of each kind of text in view, by WCAG 2.2 (1.4.3): page_contrast.py. */
() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], [br, bg, bb]) => [r * a + br * (1 - a), g * a + bg * (1 - a), b * a + bb * (1 - a)];
  const luminance = (colour) => {
    const [r, g, b] = colour.map((each) => each / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  const chain = (element) => (element === null ? [] : [...chain(element.parentElement), element]);
  const measured = (element, colour) => {
    let ground = [255, 255, 255];
    let opacity = 1;
    for (const each of chain(element)) {
      const style = getComputedStyle(each);
      opacity *= Number(style.opacity);
      const [r, g, b, a] = parse(style.backgroundColor);
      // The top layer is above all that it is inside of.
      if (a > 0) ground = over([r, g, b, a * opacity], ground);
    }
    const [r, g, b, a] = parse(colour);
    return ratio(over([r, g, b, a * opacity], ground), ground);
  };
  const seen = new Map();
  const note = (element, text, value) => {
    const style = getComputedStyle(element);
    const key = `${element.tagName}.${element.className}|${style.color}`;
    if (!seen.has(key) || seen.get(key).ratio > value) seen.set(key, { what: key, text: text.slice(0, 40), ratio: value });
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement;
    if (node.textContent.trim() === "" || !element.checkVisibility({ visibilityProperty: true })) continue;
    note(element, node.textContent.trim(), measured(element, getComputedStyle(element).color));
  }
  for (const input of document.querySelectorAll("input[placeholder]")) {
    if (input.checkVisibility()) note(input, input.placeholder, measured(input, getComputedStyle(input, "::placeholder").color));
  }
  const variable = (name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const colour = parse(getComputedStyle(probe).color).slice(0, 3);
    probe.remove();
    return colour;
  };
  for (const name of ["muted", "text"]) {
    for (const ground of ["box", "page", "hover"]) seen.set(`${name} on ${ground}`, { what: `--${name} on --${ground}`, text: "", ratio: ratio(variable(name), variable(ground)) });
  }
  return [...seen.values()].sort((a, b) => a.ratio - b.ratio);
}
