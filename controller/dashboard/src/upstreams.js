/** The upstreams: as tabs on top, in sums, and in pages of tiles, those that need a person first. */

import { $, badge, fill, h } from "./dom.js";
import { count, many, percent, UNKNOWN } from "./format.js";
import { headroomTile, level, tile } from "./tiles.js";
import { part } from "./pager.js";
import { link } from "./route.js";
import { LEVELS } from "./words.js";

// More tabs than this are a list.
export const MOST_TABS = 6;
export const CARDS = 24;
// A tile with more lines is read no further; the upstream's own view has all.
const MOST_LINES = 3;
// Factors have a leak of a thousandth, which is no crossing to speak of.
const LEAST_CROSSING = 0.005;

/** Show the tabs; `list` is the API's, `name` the open upstream. */
export function tabs({ upstreams, total }, name) {
  if (total <= MOST_TABS && upstreams.length < total) return; // a search shows a part of them
  const each = total > MOST_TABS ? [] : [...upstreams].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const tab = (one) => h("a", { href: link(one.name), attr: { "aria-current": one.name === name ? "page" : null, "data-key": one.name } }, one.name, flag(one));
  const all = h("a", { href: "#/", attr: { "aria-current": name === null ? "page" : null, "data-key": "all" } }, total > MOST_TABS ? `All ${total.toLocaleString("en")} upstreams` : "All");
  const open = name === null ? null : tab({ name });
  fill($("upstreams"), ...(total > MOST_TABS ? [all, open] : total > 1 ? [all, ...each.map(tab)] : each.map(tab)));
}

/** Show the sums over all upstreams, and a page of them; `to` returns the address with a change. */
export function all({ upstreams, matching, total, totals }, route, to) {
  if (totals) fill($("all-tiles"), ...sums(totals, total));
  fill($("all-list"), ...upstreams.map((each) => card(each, route)));
  part({ of: $("all-matching"), order: $("all-order"), pages: $("all-pages") }, { matching, total, limit: CARDS }, { ...route, order: route.order || "worst" }, to);
}

function sums(totals, total) {
  const need = totals.fault + totals.warning;
  const parts = [totals.fault && many(totals.fault, "fault"), totals.warning && many(totals.warning, "warning"), totals.notice && many(totals.notice, "notice")].filter(Boolean);
  const verdict = need === 0 ? "All is well" : `${count(need)} need${need === 1 ? "s" : ""} you`;
  const { tightest } = totals;
  const least = tightest === null ? UNKNOWN : percent(tightest.headroom);
  const ends = totals.requests_per_s + totals.failed_per_s;
  return [
    tile("Upstreams", verdict, { tone: totals.fault > 0 ? "bad" : need > 0 ? "warn" : "good", note: parts.join(", ") || `${count(total)} of ${count(total)}`, live: true }),
    headroomTile("Least headroom", least, tightest?.headroom ?? null, tightest === null ? "not known yet" : h("a", { href: link(tightest.name) }, tightest.name)),
    tile("Requests/s", count(totals.requests_per_s), { note: `on ${many(totals.servers, "server")}` }),
    tile("Failed/s", count(totals.failed_per_s), { tone: totals.failed_per_s > 0 ? "warn" : "", note: totals.failed_per_s > 0 && ends > 0 ? `${percent(totals.failed_per_s / ends)} of all` : "none" }),
  ];
}

function card(each, { search }) {
  const { found, troubles } = each;
  const more = troubles.length - MOST_LINES;
  const lines = troubles.slice(0, MOST_LINES).map((line) => h("li", {}, line));
  if (more > 0) lines.push(h("li", {}, `and ${count(more)} more`));
  // Zones within which all stays need no line.
  if (each.crossing >= LEAST_CROSSING) lines.push(h("li", {}, `${percent(each.crossing)} of the requests cross zones`));
  const used = each.headroom === null ? null : 1 - each.headroom;
  return h(
    "li",
    { class: `card level-${each.level}`, attr: { "data-key": each.name } },
    h("div", { class: "card-head" }, h("h2", {}, h("a", { href: link(each.name, null, found.length > 0 ? { search } : {}), attr: { "data-key": each.name } }, each.name)), badge(level(each))),
    h(
      "dl",
      {},
      figure("Requests/s", count(each.requests_per_s)),
      figure("Headroom", percent(each.headroom), each.headroom_unknown ? `Not known: ${each.headroom_unknown}.` : ""),
      figure("Servers up", `${count(each.up)} of ${count(each.peers)}`),
    ),
    bar(used),
    lines.length > 0 ? h("ul", {}, ...lines) : null,
    found.length > 0 ? h("p", {}, `Has ${found.join(", ")}${found.length > 2 ? ", …" : ""}`) : null,
  );
}

function figure(name, value, title = "") {
  return h("div", { title }, h("dt", {}, name), h("dd", {}, value));
}

/** How much of its capacity an upstream uses; the figure is beside it in words. */
function bar(used) {
  const fillOf = h("i", { class: `fill ${used === null ? "" : used > 0.9 ? "full" : ""}` });
  fillOf.style.width = `${(used ?? 0) * 100}%`;
  return h("span", { class: `track ${used === null ? "unknown" : ""}`, attr: { "aria-hidden": "true" } }, fillOf);
}

function flag({ level: its }) {
  if (its !== "fault" && its !== "warning") return null;
  const { tone, text } = LEVELS[its];
  return h("span", { class: `flag ${tone}`, title: text }, "!", h("span", { class: "hidden" }, ` ${text}`));
}
