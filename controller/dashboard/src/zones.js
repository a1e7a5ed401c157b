/** The box of zones: which servers and load balancers are in each, and which requests leave it. */

import { $, fill, h, set } from "./dom.js";
import { count, many, percent } from "./format.js";

// More names than this are a number.
const MOST_NAMES = 6;
// Less is the end of a smoothed figure, or the leak of factors.
const LEAST = 0.0005;

/** Return the part of all requests that crosses zones, null without zones in force. */
export function crossing({ by_zone: zones = [] }) {
  const seen = zones.filter((each) => each.brings_per_s !== null);
  const brought = seen.reduce((sum, each) => sum + each.brings_per_s, 0);
  if (brought === 0) return null;
  const part = seen.reduce((sum, each) => sum + each.crosses_per_s, 0) / brought;
  return part < LEAST ? 0 : part;
}

/** Show the zones of an overview. */
export function draw(overview) {
  const zones = overview.by_zone ?? [];
  set($("zones-box"), "hidden", zones.length === 0);
  if (zones.length === 0) return;
  const part = crossing(overview);
  const brought = zones.reduce((sum, each) => sum + (each.brings_per_s ?? 0), 0);
  fill(
    $("zones"),
    h("p", {}, part === null ? "No load balancer of these zones reports requests, so requests follow the weights alone." : `${percent(part)} of ${count(brought)} requests/s cross zones.`),
    h("ul", { class: "items" }, ...zones.map((each) => zone(each, overview))),
  );
}

function zone(each, overview) {
  const { servers, up, share, load_balancers: lbs, brings_per_s: brings, crosses_per_s: crosses } = each;
  const names = overview.peers.filter((peer) => (peer.zone ?? null) === each.zone).map((peer) => peer.id);
  return h(
    "li",
    {},
    h("div", { class: "zone-head" }, h("b", {}, each.zone ?? "no zone"), h("span", {}, `${percent(share)} of the weights`)),
    h("small", {}, `Servers: ${servers === 0 ? "none" : listed(names, servers)}${up < servers ? ` (${count(up)} up)` : ""}`),
    h("small", {}, `Load balancers: ${lbs.length === 0 ? "none" : listed(lbs, lbs.length)}`),
    brings === null ? null : traffic(brings, crosses, each.crosses_to),
  );
}

function listed(names, total) {
  const shown = names.slice(0, MOST_NAMES);
  if (shown.length === 0) return count(total);
  return shown.join(", ") + (total > shown.length ? ` and ${count(total - shown.length)} more` : "");
}

function traffic(brings, crosses, to) {
  const near = h("i", { class: "fill" });
  near.style.width = `${brings > 0 ? (1 - crosses / brings) * 100 : 0}%`;
  const far = Object.entries(to).map(([name, perS]) => `${count(perS)} to ${name || "servers without a zone"}`);
  return h(
    "div",
    { class: "zone-flow" },
    h("span", { class: "track crossing", attr: { "aria-hidden": "true" } }, near),
    h("small", {}, `${count(brings)} requests/s: ${far.length === 0 ? "all stay" : `${count(brings - crosses)} stay, ${far.join(", ")}`}`),
  );
}
