/** The upstreams: as tabs on top, and in pages of cards, the most troubled first. */

import { $, badge, fill, h } from "./dom.js";
import { count, many } from "./format.js";
import { part } from "./pager.js";
import { link } from "./route.js";

// More tabs than this are a list.
export const MOST_TABS = 6;
export const CARDS = 24;

/** Show the tabs; `list` is the API's, `name` the open upstream. */
export function tabs({ upstreams, total }, name) {
  if (total <= MOST_TABS && upstreams.length < total) return; // a search shows a part of them
  const each = total > MOST_TABS ? [] : upstreams;
  const tab = (one) => h("a", { href: link(one.name), attr: { "aria-current": one.name === name ? "page" : null, "data-key": one.name } }, one.name, flag(one));
  const all = h("a", { href: "#/", attr: { "aria-current": name === null ? "page" : null, "data-key": "all" } }, `All ${count(total)} upstreams`);
  fill($("upstreams"), ...(total > MOST_TABS ? [all, name === null ? null : tab({ name, ready: true, degraded: [] })] : each.map(tab)));
}

/** Show a page of upstreams; `to` returns the address with a change. */
export function all({ upstreams, matching, total }, route, to) {
  fill($("all-list"), ...upstreams.map((each) => card(each, route)));
  part({ of: $("all-matching"), order: $("all-order"), pages: $("all-pages") }, { matching, total, limit: CARDS }, route, to);
}

function card(each, { search }) {
  const { found } = each;
  return h(
    "a",
    { class: "card", href: link(each.name, null, found.length > 0 ? { search } : {}), attr: { "data-key": each.name } },
    h("h2", {}, each.name),
    h("p", {}, `${many(each.peers, "server")}, law ${each.law}, picker ${each.picker}`),
    state(each),
    ...each.troubles.map((line) => h("small", { class: each.degraded.includes(line) ? "wrong" : "" }, line)),
    found.length > 0 ? h("p", {}, `Has ${found.join(", ")}${found.length > 2 ? ", …" : ""}`) : null,
  );
}

function state(each) {
  if (!each.ready) return badge({ tone: "warn", label: "no tick yet" });
  if (each.degraded.length > 0) return badge({ tone: "warn", label: `${count(each.degraded.length)} degraded` });
  return each.troubles.length > 0 ? badge({ tone: "plain", label: "needs a look" }) : badge({ tone: "good", label: "well" });
}

function flag(each) {
  if (each.ready && each.degraded.length === 0) return null;
  return h("span", { class: "flag", title: each.ready ? each.degraded.join("\n") : "waits for its first tick" }, "!");
}
