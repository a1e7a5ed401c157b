/** The audit log of the shown upstream or of all, newest first; without a token, how to see it. */

import { authorized } from "./actions.js";
import { Problem, request, token } from "./api.js";
import { $, fill, h, set } from "./dom.js";
import { since } from "./format.js";

const AT_FIRST = 6;
const AT_A_TIME = 20;
const SOON_MS = 200;

export class AuditLog {
  #upstream = null;
  #entries = [];
  #soon = 0;
  #place = null;
  #people = true;
  #onToken;

  /** `onToken` is called after a token was entered. */
  constructor(onToken) {
    this.#onToken = onToken;
    $("audit-people").addEventListener("click", () => this.#choose(true));
    $("audit-all").addEventListener("click", () => this.#choose(false));
    $("audit-more").addEventListener("click", () => this.#load(this.#entries));
  }

  /** Show the log of an upstream, or with null of all, in an element; null: nowhere. */
  show(upstream, place) {
    set($("audit"), "hidden", place === null);
    if (place !== null && this.#place !== place) place.append($("audit"));
    const moved = this.#place !== place;
    this.#place = place;
    if (upstream === this.#upstream && !moved) return;
    this.#upstream = upstream;
    this.#entries = [];
    this.#load([]);
  }

  /** Request again: the token has changed. */
  reload() {
    this.#entries = [];
    this.#load([]);
  }

  /** Request again after a change. Many changes at once cause one request; further pages in view stay. */
  changed() {
    clearTimeout(this.#soon);
    if (this.#entries.length <= AT_FIRST) this.#soon = setTimeout(() => this.#load([]), SOON_MS);
  }

  #choose(people) {
    this.#people = people;
    $("audit-people").setAttribute("aria-pressed", String(people));
    $("audit-all").setAttribute("aria-pressed", String(!people));
    this.reload();
  }

  async #load(before) {
    clearTimeout(this.#soon);
    if (this.#place === null) return;
    if (token.get() === null) return this.#withoutToken();
    const upstream = this.#upstream;
    const limit = before.length > 0 ? AT_A_TIME : AT_FIRST;
    const query = new URLSearchParams({ limit });
    if (upstream !== null) query.set("upstream", upstream);
    const people = this.#people;
    if (people) query.set("origin", "people");
    if (before.length > 0) query.set("before", before.at(-1).id);
    try {
      const answer = await request("GET", `/v1/audit?${query}`);
      // Others were chosen meanwhile.
      if (upstream !== this.#upstream || people !== this.#people) return;
      this.#entries = [...before, ...answer.entries];
      set($("audit-more"), "hidden", answer.entries.length < limit);
      const lines = this.#entries.map((entry) => line(entry, upstream));
      fill($("audit-body"), lines.length > 0 ? h("ul", { class: "items" }, ...lines) : h("p", { class: "muted" }, people ? "Nobody has changed anything." : "Nothing was changed."));
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (problem.status === 401) return this.#withoutToken();
      fill($("audit-body"), h("p", { class: "wrong" }, problem.message));
    }
  }

  #withoutToken() {
    set($("audit-more"), "hidden", true);
    const give = () => authorized(() => request("GET", "/v1/audit?limit=1"), this.#onToken);
    fill(
      $("audit-body"),
      h("p", { class: "muted" }, "The log has the names of people, so reading it needs a token."),
      h("button", { type: "button", attr: { "data-key": "audit-token" }, on: { click: give } }, "Show it with a token"),
    );
  }
}

function line({ at_ms, who, kind, via, address, upstream, what }, shown) {
  const how = [kind, via && `by way of ${via}`, address && `from ${address}`].filter(Boolean).join(", ");
  const subject = upstream === shown ? null : h("b", {}, `${upstream} `);
  return h(
    "li",
    { title: `${new Date(at_ms).toLocaleString()}: ${how}` },
    h("span", {}, subject, what.replaceAll(" -> ", " → ")),
    h("small", {}, h("span", { class: "who" }, who), `, ${since(at_ms, Date.now())}`),
  );
}
