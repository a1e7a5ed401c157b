/** A uPlot plugin: the chart's values at the pointer. */

import { clock } from "./format.js";
import { h } from "./dom.js";

// A larger tip covers more than it shows.
const MOST = 13;

/** `spec` returns {series, plain, format, stack}: ids and slots, and the columns as they are. */
export function tip(spec) {
  const box = h("div", { class: "tip", attr: { "aria-hidden": "true" } });
  const show = (shown) => box.classList.toggle("shown", shown);
  return {
    hooks: {
      init: (plot) => {
        plot.over.append(box);
        plot.over.addEventListener("mouseenter", () => show(true));
        plot.over.addEventListener("mouseleave", () => show(false));
      },
      setCursor: (plot) => {
        const { left, top, idx } = plot.cursor;
        if (idx === null || idx === undefined || left < 0 || !box.classList.contains("shown")) return;
        box.replaceChildren(h("b", {}, clock(plot.data[0][idx] * 1000)), ...rows(spec(), idx));
        // Beside the pointer, on the side with room.
        const right = left + 18 + box.offsetWidth < plot.over.clientWidth;
        box.style.left = `${right ? left + 14 : Math.max(0, left - 14 - box.offsetWidth)}px`;
        box.style.top = `${Math.min(Math.max(0, top - 20), Math.max(0, plot.over.clientHeight - box.offsetHeight))}px`;
      },
    },
  };
}

function rows({ series, plain, format }, idx) {
  return series
    .map(({ id, slot }, row) => ({ id, slot, value: plain[row][idx] }))
    .filter(({ value }) => value !== null && value !== undefined)
    .sort((a, b) => b.value - a.value)
    .slice(0, MOST)
    .map(({ id, slot, value }) =>
      h("div", {}, h("i", { class: `chip ${slot === null ? "others" : `s${slot}`}` }), h("span", {}, id), h("em", {}, format(value))),
    );
}
