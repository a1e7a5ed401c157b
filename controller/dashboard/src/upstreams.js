/** The upstreams: as tabs on top, and as a page with a line each. */

import { $, badge, fill, h } from "./dom.js";
import { count, many } from "./format.js";
import { link } from "./route.js";

// More tabs than this are a list.
const MOST_TABS = 6;

let shown = "";

/** Show the tabs; `name` is the upstream that is open. */
export function tabs(list, name) {
  const key = JSON.stringify([list.map((each) => [each.name, each.ready, each.degraded.length]), name]);
  if (key === shown) return;
  shown = key;
  const nav = $("upstreams");
  if (list.length <= MOST_TABS) {
    fill(
      nav,
      ...list.map((each) =>
        h("a", { href: link(each.name), attr: { "aria-current": each.name === name ? "page" : null, "data-key": each.name } }, each.name, flag(each)),
      ),
    );
    return;
  }
  const options = list.map((each) => h("option", { value: each.name, selected: each.name === name }, each.name));
  const all = h("option", { value: "", selected: name === null }, `All ${list.length} upstreams`);
  const select = h("select", { attr: { "aria-label": "Upstream", "data-key": "select" } }, all, ...options);
  select.addEventListener("change", () => (location.hash = select.value === "" ? "#/" : link(select.value)));
  fill(nav, select);
}

/** Show the page of all upstreams. */
export function all(list) {
  fill(
    $("all-list"),
    ...list.map((each) =>
      h(
        "a",
        { class: "card", href: link(each.name), attr: { "data-key": each.name } },
        h("h2", {}, each.name),
        h("p", {}, `${many(each.peers, "server")}, law ${each.law}, picker ${each.picker}`),
        state(each),
        ...each.degraded.map((line) => h("small", { class: "wrong" }, line)),
      ),
    ),
  );
}

function state(each) {
  if (!each.ready) return badge({ tone: "warn", label: "waits for its first tick" });
  return each.degraded.length > 0 ? badge({ tone: "warn", label: `${count(each.degraded.length)} degraded` }) : badge({ tone: "good", label: "well" });
}

function flag(each) {
  if (each.ready && each.degraded.length === 0) return null;
  return h("span", { class: "flag", title: each.ready ? each.degraded.join("\n") : "waits for its first tick" }, "!");
}
