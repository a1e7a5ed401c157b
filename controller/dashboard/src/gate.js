/** The page for a person without a token: the scopes of tokens, the ways to get a token, and the place for it. */

import { $, fill, h, set } from "./dom.js";

const SCOPES = [
  ["read", "see all upstreams, servers, the reason for each weight, and who changed what"],
  ["drain", "the same, and drain, restore, pin and unpin servers"],
  ["declare", "the same, and change everything else over the API"],
];

/** Return the words on how to get a token, and where it belongs, below headings of a level. */
export function howTo(heading = "h3") {
  return [
    h(heading, {}, "How to get one"),
    h("p", {}, "On the controller's machine, the command ", h("code", {}, "steelyard page"), " prints a link that opens this page with a token. Elsewhere, ask the person who runs this controller: the tokens and their names are in its settings (", h("code", {}, "--tokens-file"), ", ", h("code", {}, "--read-token-file"), ")."),
    h(heading, {}, "Where to put it"),
    h("p", {}, "Into this field, and never into an address: browsers and proxies keep addresses. This tab keeps the token until it is closed, and sends it to this controller only."),
  ];
}

/** Return the list of what the tokens allow. */
export function scopes() {
  return h("dl", { class: "scopes" }, ...SCOPES.flatMap(([name, what]) => [h("dt", {}, name), h("dd", {}, what)]));
}

/** Show the gate, or with `asked` null hide it. `asked` is {wrong, given(token)}: whether a token was refused. */
export function draw(asked) {
  const gate = $("gate");
  set(gate, "hidden", asked === null);
  if (asked === null || gate.childElementCount > 0) {
    if (asked !== null) wrong(asked);
    return;
  }
  const input = h("input", { id: "gate-token", type: "password", required: true, pattern: ".*\\S.*", title: "Paste the token.", autocomplete: "off", spellcheck: false, attr: { "aria-describedby": "gate-wrong" } });
  const send = (event) => {
    event.preventDefault();
    asked.given(input.value.trim());
    input.value = "";
  };
  fill(
    gate,
    h("h1", { id: "gate-title" }, "This controller needs a token"),
    h("p", { class: "lead" }, "It shows its figures only to people with a token. The load balancers work without this page."),
    h(
      "form",
      { on: { submit: send } },
      h("label", { class: "field" }, "Token", input),
      h("button", { type: "submit", class: "main" }, "Use it"),
      h("p", { id: "gate-wrong", class: "wrong", attr: { role: "alert" } }),
    ),
    h("h2", {}, "Scopes of tokens"),
    scopes(),
    ...howTo("h2"),
  );
  wrong(asked);
  input.focus();
}

function wrong(asked) {
  const words = asked.wrong ? "This controller does not know that token. Look for missing characters, or get another one." : "";
  const line = $("gate-wrong");
  if (line.textContent !== words) line.textContent = words;
}
