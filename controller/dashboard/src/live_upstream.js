/** One upstream as it is watched: its newest overview, its history, and the stream that brings both. */

import { pathOf, request } from "./api.js";
import { SECONDS, UpstreamHistory, momentOf, query } from "./history.js";
import { Stream } from "./stream.js";

// A gap of less is none; and a history that could not be had is asked for again after so long.
const ENOUGH_S = 1.5;
const AGAIN_MS = 5000;

export class LiveUpstream {
  overview = null;
  history = new UpstreamHistory();
  connection = { kind: "connecting", attempt: 0 };
  heardMs = null;
  #stream;
  #told;
  #filled = false;
  #owedS = 0;
  #ended = false;

  /** `told(what, data)` is called with "tick", "connection", "change" (its document), "role" and "gap". */
  constructor(name, told) {
    this.name = name;
    this.#told = told;
    this.#stream = new Stream(`/v1/events?upstream=${encodeURIComponent(name)}`, {
      onEvent: (kind, data) => this.#event(kind, data),
      onState: (state) => this.#state(state),
    });
  }

  retry() {
    this.#stream.retry();
  }

  end() {
    this.#ended = true;
    this.#stream.end();
  }

  #event(kind, data) {
    const document = JSON.parse(data);
    if (kind === "tick" && document.upstream === this.name) {
      this.overview = document;
      this.heardMs = Date.now();
      // What came while nobody listened is fetched before the new is added, or the gap would stay.
      if (!this.#filled) this.#fill();
      this.history.add(momentOf(this.overview));
    }
    this.#told(kind, document);
  }

  #state(state) {
    this.connection = state;
    if (state.kind !== "live") this.#filled = false;
    this.#told("connection", state);
  }

  async #fill() {
    this.#filled = true;
    const newest = this.history.newest;
    const gapS = newest === null ? SECONDS : (this.overview.issued_at_ms - newest.atMs) / 1000;
    this.#owedS = Math.min(SECONDS, Math.max(this.#owedS, gapS));
    if (this.#owedS <= ENOUGH_S) return;
    try {
      const path = `${pathOf(this.name, "history")}?${query(this.overview.peers.length, this.#owedS + ENOUGH_S)}`;
      const { moments } = await request("GET", path);
      if (this.#ended) return;
      this.#owedS = 0;
      this.history.merge(moments);
      this.#told("tick", this.overview);
    } catch {
      // The store is away, or slow: the charts begin now, and what was before is asked for again.
      setTimeout(() => (this.#filled = false), AGAIN_MS);
    }
  }
}
