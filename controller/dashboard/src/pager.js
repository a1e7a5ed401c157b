/** The pages of a long list: the present one, links to the others, and search and order. */

import { fill, h, set, text } from "./dom.js";
import { count } from "./format.js";

// Longer than the time between two keys of a person typing.
const TYPING_MS = 150;

/** Show which part of a `total` is visible, in the boxes for the number `of`, for the order and the pages. */
export function part({ of, order, pages }, { matching, total, limit }, route, to) {
  text(of, `${matching === total ? "" : `${count(matching)} of `}${count(total)}`);
  const worst = route.order === "worst" || (route.order === "" && total > limit);
  orders(order, route.order, worst, (wanted) => to({ order: wanted }));
  pager(pages, { page: route.page, limit, matching }, (page) => to({ page }));
}

/** Show the links; `link(page)` returns the address of a page. */
function pager(nav, { page, limit, matching }, link) {
  const last = Math.max(1, Math.ceil(matching / limit));
  const from = Math.min(matching, (page - 1) * limit + 1);
  const to = (target, label) =>
    target < 1 || target > last || target === page
      ? h("span", { class: "button muted", attr: { "aria-disabled": "true" } }, label)
      : h("a", { class: "button", href: link(target), attr: { "data-key": label } }, label);
  set(nav, "hidden", last === 1 && page === 1);
  fill(nav, to(1, "First"), to(Math.min(page - 1, last), "Previous"), h("span", {}, `${from}–${Math.min(matching, page * limit)} of ${matching.toLocaleString("en")}`), to(page + 1, "Next"), to(last, "Last"));
}

/** Show the two most common orders; `order` is the address's, `first` is whether the worst come first now. */
function orders(nav, order, first, link) {
  const offered = [["worst", "Worst first", first], ["name", "By name", order === "name"]];
  fill(nav, ...offered.map(([to, label, now]) => h("a", { class: "button", href: link(to), attr: { "aria-current": now ? "true" : null, "data-key": to } }, label)));
}

/** Have a search box request its text; return a function that shows the address's search in it. */
export function searchBox(input, asked) {
  let timer = null;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = null;
      asked({ search: input.value.trim() });
    }, TYPING_MS);
  });
  return (search) => {
    if (timer === null && input.value.trim() !== search) input.value = search;
  };
}
