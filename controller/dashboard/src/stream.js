/**
 * The controller's events while the page is open: reconnects, and reports it. While the controller has no
 * place for one more stream (429), it asks by plain requests, and tries the stream again now and then.
 */

import { headers, problemOf } from "./api.js";
import { Parser } from "./sse.js";

// The controller sends something at least every 10 s.
const SILENCE_MS = 25_000;

const FIRST_MS = 500;
const LONGEST_MS = 10_000;

// Without a place for the stream.
export const ASK_MS = 3000;
const TRY_STREAM_MS = 15_000;

/** Return the milliseconds before try `attempt` (from 1); `random` within 0..1 keeps a hundred pages apart. */
export function delayMs(attempt, random) {
  const longest = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt - 1, 10));
  return Math.round(longest * (0.5 + 0.5 * random));
}

export class Stream {
  #path;
  #onEvent;
  #onState;
  #ask;
  #ended = false;
  #abort = null;
  #attempt = 0;
  #wake = () => {};

  /**
   * `onEvent(name, data)` gets each event's text; `onState` gets {kind: "connecting" | "live" | "waiting" |
   * "denied", until, detail, refused}: `until` is when it is tried again, `detail` why it must be. `refused`
   * is why it is live without a stream. `ask()` then does a plain request instead; it raises `Problem`.
   */
  constructor(path, { onEvent, onState, ask }) {
    this.#path = path;
    this.#onEvent = onEvent;
    this.#onState = onState;
    this.#ask = ask;
    this.#run();
  }

  /** Try now, not after the pause. */
  retry() {
    this.#wake();
  }

  /** End for good. */
  end() {
    this.#ended = true;
    this.#abort?.abort();
    this.#wake();
  }

  async #run() {
    while (!this.#ended) {
      this.#say({ kind: "connecting", attempt: this.#attempt });
      let failed = await this.#once();
      if (failed.status === 429) failed = await this.#askInstead(failed.message);
      if (this.#ended) return;
      if (failed === null) continue;
      this.#attempt += 1;
      if (failed.status === 401 || failed.status === 403) {
        this.#say({ kind: "denied", detail: failed.message, status: failed.status });
        await new Promise((resolve) => (this.#wake = resolve));
        continue;
      }
      const waitMs = delayMs(this.#attempt, Math.random());
      this.#say({ kind: "waiting", until: Date.now() + waitMs, detail: failed.message });
      await this.#sleep(waitMs);
    }
  }

  /** Ask until it is time for the stream again; return null then, or why a request failed. */
  async #askInstead(refused) {
    const until = Date.now() + TRY_STREAM_MS * (0.5 + Math.random());
    let woken = false;
    while (!this.#ended && !woken && Date.now() < until) {
      try {
        if (!document.hidden) await this.#ask();
      } catch (problem) {
        return problem;
      }
      this.#attempt = 0;
      this.#say({ kind: "live", refused });
      woken = await this.#sleep(ASK_MS);
    }
    return null;
  }

  /** Return whether `retry` or `end` came before the pause's end. */
  #sleep(waitMs) {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), waitMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }

  /** One connection until its end; return why it ended. */
  async #once() {
    this.#abort = new AbortController();
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => this.#abort.abort(), SILENCE_MS);
    };
    try {
      heard();
      const answer = await fetch(this.#path, {
        headers: headers({ Accept: "text/event-stream" }),
        cache: "no-store",
        signal: this.#abort.signal,
      });
      if (!answer.ok) return await problemOf(answer);
      await this.#read(answer.body, heard);
      return new Error("The controller ended the connection.");
    } catch {
      return new Error(this.#abort.signal.aborted ? "The controller is silent." : "The controller does not answer.");
    } finally {
      clearTimeout(silence);
      this.#abort.abort();
    }
  }

  async #read(body, heard) {
    const parser = new Parser((name, data) => {
      if (!this.#ended) this.#onEvent(name, data);
    });
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let first = true;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      if (first) {
        first = false;
        this.#attempt = 0;
        this.#say({ kind: "live" });
      }
      parser.feed(value);
    }
  }

  #say(state) {
    if (!this.#ended) this.#onState(state);
  }
}
