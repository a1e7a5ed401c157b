/** The line on top: connection, role, and faults. */

import { $, fill, h, set, text } from "./dom.js";
import { clock } from "./format.js";
import { ASK_MS } from "./stream.js";
import { faultOf, roleOf } from "./words.js";

/** Show the role of the controller. */
export function role(service) {
  const words = roleOf(service);
  set($("role"), "hidden", service === null);
  text($("role"), words.label);
  set($("role"), "title", words.text);
  set($("role"), "className", `pill ${words.tone}`);
}

/** Show the connection's state, as `stream` reports it. */
export function connection(state) {
  const box = $("connection");
  const words = {
    connecting: () => ["plain", state.attempt > 0 ? "Connecting again…" : "Connecting…"],
    live: () => (state.refused ? ["plain", `Every ${ASK_MS / 1000} s`] : ["good", "Live"]),
    waiting: () => ["bad", `Lost: tries again in ${Math.max(1, Math.ceil((state.until - Date.now()) / 1000))} s`],
    denied: () => ["bad", "A token is needed"],
    idle: () => ["plain", "Up to date"],
  }[state.kind]();
  set(box, "className", `pill ${words[0]}`);
  text(box, words[1]);
}

/** Show the faults, each as a line; `lost` is {detail, sinceMs, retry} without a connection, `refused` why there is no stream, `shared` are troubles of many upstreams. */
export function notices({ lost, refused, degraded, shared = [], waiting, failed }) {
  const lines = [];
  if (lost) {
    const since = lost.sinceMs === null ? "" : ` The data is from ${clock(lost.sinceMs)}; the load balancers go on without this page.`;
    const button = h("button", { type: "button", attr: { "data-key": "retry" }, on: { click: lost.retry } }, lost.denied ? "Give a token" : "Try now");
    lines.push(h("div", { class: "notice bad" }, h("span", {}, `${lost.detail}${since}`), button));
  }
  if (refused) lines.push(h("div", { class: "notice" }, h("span", {}, `The controller has no place for this page's event stream, so the page asks every ${ASK_MS / 1000} s. ${refused}.`)));
  if (failed) lines.push(h("div", { class: "notice bad" }, h("span", {}, failed)));
  if (waiting) lines.push(h("div", { class: "notice" }, h("span", {}, waiting)));
  if (shared.length > 0) lines.push(h("div", { class: "notice warn" }, h("span", {}, shared.join("; "))));
  if (degraded.length > 0) {
    lines.push(h("div", { class: "notice warn" }, h("div", {}, ...degraded.map(faultOf).map(({ title, text: effect, detail }) => h("p", {}, h("b", {}, title), ` ${effect} `, h("small", {}, detail))))));
  }
  fill($("notices"), ...lines);
}
