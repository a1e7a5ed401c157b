/** The pages of what is too much for one: where one is, and links to the others; what narrows them down. */

import { fill, h, set, text } from "./dom.js";
import { count } from "./format.js";

// Between two keys of somebody who types.
const TYPING_MS = 150;

/** Show which part of a `total` is shown, in the boxes for how much it is `of`, for its order and its pages. */
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

/** Show the two orders that most want; `order` is that of the address, `first` tells whether the worst come first now. */
function orders(nav, order, first, link) {
  const offered = [["worst", "Worst first", first], ["name", "By name", order === "name"]];
  fill(nav, ...offered.map(([to, label, now]) => h("a", { class: "button", href: link(to), attr: { "aria-current": now ? "true" : null, "data-key": to } }, label)));
}

/** Have a search box ask for what is typed into it; return what shows the search of the address in it. */
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
