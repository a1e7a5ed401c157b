/** A person's changes of a server: drain, restore, pin, unpin. Asks for confirmation if needed, and for a token. */

import { Problem, pathOf, request, token } from "./api.js";
import { askPin, askToken, confirmed, toast } from "./dialogs.js";
import { h, set, text } from "./dom.js";
import { percent } from "./format.js";
import { isByPod } from "./words.js";

// The announcement of a change arrives at about the time of its answer, before or after.
const OWN_MS = 3000;

/** Do `work`; if it needs a token, ask for one. Return its answer, null if the person gives up. */
export async function authorized(work, onToken = () => {}) {
  for (;;) {
    try {
      return await work();
    } catch (problem) {
      if (!(problem instanceof Problem) || (problem.status !== 401 && problem.status !== 403)) throw problem;
      const given = await askToken(reasonOf(problem));
      if (given === null) return null;
      token.set(given);
      onToken();
    }
  }
}

/** Return why a token is asked for, for a person; the controller's own words are for programs. */
function reasonOf({ status, message }) {
  if (status === 403) return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
  if (token.get() !== null) return "This controller does not know that token.";
  return "Everybody may look at this page. Changes, and the log of who changed what, need a token.";
}

export class Actions {
  #totals;
  #onToken;
  #own = new Map();

  /** `totals` returns the newest overview's; `onToken` is called after a token was entered. */
  constructor(totals, onToken) {
    this.#totals = totals;
    this.#onToken = onToken;
  }

  /** Return whether an announced change was made on this page, which has reported it already. */
  made({ what }) {
    return [...this.#own].some(([id, atMs]) => what.startsWith(`${id}: `) && Date.now() - atMs < OWN_MS);
  }

  /** Return {element, update(peer)}: the buttons of a server. */
  buttons(upstream, id) {
    const state = h("button", { type: "button" });
    const pin = h("button", { type: "button" });
    let peer = null;
    state.addEventListener("click", () => peer && (isOut(peer) ? this.restore(upstream, peer) : this.drain(upstream, peer)));
    pin.addEventListener("click", () => peer && (peer.pin === null ? this.pin(upstream, peer) : this.unpin(upstream, peer)));
    const update = (now) => {
      peer = now;
      text(state, isOut(peer) ? "Restore" : "Drain");
      set(state, "title", isOut(peer) ? `Let ${id} have requests again` : `Give ${id} no new requests`);
      text(pin, peer.pin === null ? "Pin…" : `Unpin ${percent(peer.pin / 100)}`);
      set(pin, "title", peer.pin === null ? `Fix the weight of ${id} by hand` : `Let the law decide about ${id} again`);
      for (const button of [state, pin]) button.setAttribute("aria-label", `${button.textContent} ${id}`);
    };
    return { element: h("span", { class: "do" }, state, pin), update };
  }

  async drain(upstream, peer) {
    const { id } = peer;
    const others = this.#totals().up - (peer.state === "up" ? 1 : 0);
    const words = [
      `It gets no new requests; those in flight (${peer.in_flight}) finish. Its ${percent(peer.share)} of the requests ` +
        (others > 0 ? `${others === 1 ? "goes to the one other server" : `are shared by the ${others} other servers`} that ${others === 1 ? "is" : "are"} up.` : "have nowhere to go:"),
    ];
    if (others === 0) words.push("No other server is up. Requests will go to backups if there are any, and fail otherwise.");
    if (!(await confirmed(`Drain ${id}?`, words, "Drain"))) return;
    await this.#patch(upstream, id, { state: "drain" }, `${id} is draining.`, { state: isByPod(peer) ? "up" : peer.state });
  }

  async restore(upstream, { id, state }) {
    await this.#patch(upstream, id, { state: "up" }, `${id} gets requests again.`, { state });
  }

  async pin(upstream, { id, share, pin: before }) {
    const left = Math.round(10 * (99 - this.#totals().pinned + (before ?? 0))) / 10;
    const now = Math.min(left, Math.max(0.1, 100 * share));
    const percentage = await askPin(id, now, left);
    if (percentage !== null) await this.#patch(upstream, id, { pin: percentage }, `${id} is pinned to ${percentage} %.`, { pin: null });
  }

  async unpin(upstream, { id, pin: before }) {
    await this.#patch(upstream, id, { pin: null }, `${id} is unpinned: the law decides again.`, { pin: before });
  }

  async #patch(upstream, id, change, message, back = null) {
    const path = pathOf(upstream, "peers", id);
    const send = () => {
      this.#own.set(id, Date.now());
      return request("PATCH", path, change, "application/merge-patch+json");
    };
    try {
      const answer = await authorized(send, this.#onToken);
      if (answer === null) return;
      toast(message, { undo: back && (() => this.#patch(upstream, id, back, `${id} is as it was.`)) });
    } catch (problem) {
      toast(problem.message, { bad: true });
    }
  }
}

const isOut = (peer) => peer !== null && (peer.state === "drain" || peer.state === "down") && !isByPod(peer);
