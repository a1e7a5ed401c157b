/** One watched upstream: its newest overview, its history, and the stream of both. */

import { pathOf, request } from "./api.js";
import { drawnServers } from "./chart_servers.js";
import { SECONDS, UpstreamHistory, momentOf, query } from "./history.js";
import { Stream } from "./stream.js";

// A shorter gap is none; and a failed history request is repeated after this time.
const ENOUGH_S = 1.5;
const AGAIN_MS = 5000;

export class LiveUpstream {
  overview = null;
  history = new UpstreamHistory();
  connection = { kind: "connecting", attempt: 0 };
  heardMs = null;
  deleted = false;
  drawn = [];
  #shown = null;
  #stream = null;
  #notify;
  #past = new Set();
  #filled = false;
  #askedMs = 0;
  #owedS = 0;
  #ended = false;

  /** `notify(kind, data)` is called with "tick", "connection", "change" (its document), "role" and "gap". */
  constructor(name, notify) {
    this.name = name;
    this.#notify = notify;
  }

  /** Request the servers of an API query; the present ones stay until the answer. */
  look(shown) {
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.drawn = [];
    this.#filled = false;
    this.#stream?.end();
    this.#stream = new Stream(`/v1/events?upstream=${encodeURIComponent(this.name)}&${shown}`, {
      onEvent: (kind, data) => this.#event(kind, JSON.parse(data)),
      onState: (state) => this.#state(state),
      ask: () => this.#ask(shown),
    });
  }

  retry() {
    this.#stream.retry();
  }

  end() {
    this.#ended = true;
    this.#stream.end();
  }

  /** Request the overview once, in place of a stream. */
  async #ask(shown) {
    const document = await request("GET", `${pathOf(this.name)}?${shown}`);
    if (this.#ended || shown !== this.#shown) return;
    // The moments between two requests come from the history.
    this.#filled = false;
    this.#event("tick", document);
  }

  #event(kind, document) {
    if (kind === "tick" && document.upstream === this.name) {
      this.overview = document;
      this.heardMs = Date.now();
      this.drawn = drawnServers(document.peers, this.drawn);
      // Fetch the missed moments before new ones are added, or the gap would stay.
      const lacks = this.drawn.some((id) => !this.#past.has(id)) && Date.now() - this.#askedMs > AGAIN_MS;
      if ((!this.#filled || lacks) && this.drawn.length > 0) this.#fill();
      this.history.add(momentOf(this.overview));
    }
    if (kind === "change") this.deleted = document.revision === null;
    this.#notify(kind, document);
  }

  #state(state) {
    // Another page of the same is no lost connection.
    if (state.kind === "connecting" && state.attempt === 0 && this.connection.kind === "live") return;
    this.connection = state;
    if (state.kind !== "live") this.#filled = false;
    this.#notify("connection", state);
  }

  async #fill() {
    this.#filled = true;
    this.#askedMs = Date.now();
    const { drawn } = this;
    const another = drawn.some((id) => !this.#past.has(id));
    const newest = another ? null : this.history.newest;
    const gapS = newest === null ? SECONDS : (this.overview.issued_at_ms - newest.atMs) / 1000;
    this.#owedS = Math.min(SECONDS, Math.max(this.#owedS, gapS));
    if (this.#owedS <= ENOUGH_S) return;
    try {
      const { moments } = await request("GET", `${pathOf(this.name, "history")}?${query(drawn, this.#owedS + ENOUGH_S)}`);
      if (this.#ended || drawn.some((id) => !this.drawn.includes(id))) return;
      this.#owedS = 0;
      this.#past = new Set(drawn);
      if (another) this.history = new UpstreamHistory();
      this.history.merge(moments);
      this.history.add(momentOf(this.overview));
      this.#notify("tick", this.overview);
    } catch {
      // The store is unreachable or slow: the charts begin now, and the earlier part is requested again.
      setTimeout(() => (this.#filled = false), AGAIN_MS);
    }
  }
}
