/** The audit log of the shown upstream or of all, newest first; requested while its box is open. */

import { authorized } from "./actions.js";
import { request } from "./api.js";
import { $, fill, h, set } from "./dom.js";

const AT_A_TIME = 20;
const SOON_MS = 200;

export class AuditLog {
  #upstream = null;
  #entries = [];
  #soon = 0;

  /** `onToken` is called after a token was entered. */
  constructor(onToken) {
    $("audit").addEventListener("toggle", () => this.#load([], (work) => authorized(work, onToken)));
    $("audit-more").addEventListener("click", () => this.#load(this.#entries));
    // A closed box shows nothing: request the log once it is opened.
    set($("audit"), "hidden", false);
  }

  /** Show the log of an upstream, or with null of all. */
  show(upstream) {
    if (upstream === this.#upstream) return;
    this.#upstream = upstream;
    this.#entries = [];
    this.#load([]);
  }

  /** Request again after a change. Many changes at once cause one request; further pages in view stay. */
  changed() {
    clearTimeout(this.#soon);
    if (this.#entries.length <= AT_A_TIME) this.#soon = setTimeout(() => this.#load([]), SOON_MS);
  }

  async #load(before, asking = (work) => work()) {
    clearTimeout(this.#soon);
    if (!$("audit").open) return;
    const upstream = this.#upstream;
    const query = new URLSearchParams({ limit: AT_A_TIME });
    if (upstream !== null) query.set("upstream", upstream);
    if (before.length > 0) query.set("before", before.at(-1).id);
    try {
      const answer = await asking(() => request("GET", `/v1/audit?${query}`));
      if (answer === null) return;
      // Another one was chosen while a token was asked for.
      if (upstream !== this.#upstream) return this.#load([]);
      this.#entries = [...before, ...answer.entries];
      set($("audit-more"), "hidden", answer.entries.length < AT_A_TIME);
      fill($("audit-list"), ...(this.#entries.length > 0 ? this.#entries.map(line) : [h("li", {}, "Nothing was changed.")]));
    } catch (problem) {
      fill($("audit-list"), h("li", {}, problem.message));
    }
  }
}

function line({ at_ms, who, kind, via, address, upstream, what }) {
  const how = [new Date(at_ms).toLocaleString(), kind, via && `by way of ${via}`, address && `from ${address}`];
  return h("li", {}, h("span", {}, h("b", {}, who), `  ${upstream}: ${what}`), h("small", {}, how.filter(Boolean).join(", ")));
}
