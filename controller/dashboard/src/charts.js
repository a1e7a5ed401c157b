/** The charts of an upstream, and their legend. */

import { lines, spans, stacked, times, together } from "./chart_series.js";
import { slots } from "./chart_servers.js";
import { $, h } from "./dom.js";
import { count, milliseconds, percent } from "./format.js";
import { further } from "./history.js";
import { Chart } from "./uplot_chart.js";
import { indicatorOf } from "./words.js";

// Not all servers are drawn: a stack has the others on top, and lines have one more for them.
const OTHERS = "all others";
const MEAN = "mean of all";
// With more servers, the few drawn ones are too thin a part of a stack.
const MOST_STACKED = 50;

/** Each chart: its views, of which one is shown, and whether it has one more for each further indicator. */
const CHARTS = [
  {
    key: "share",
    title: "Who gets the requests",
    help: "The intended part of all requests for each server: its weight, divided by the weights of all servers that are up.",
    views: [
      { column: "share", label: "Share", format: percent, stack: true, max: 1 },
      { column: "weight", label: "Weight", format: count },
    ],
  },
  {
    key: "used",
    title: "How busy the servers are",
    help: "As measured by their agents. 100 % is the full capacity of a server.",
    further: true,
    views: [
      { column: "cpu", label: "CPU", format: percent, least: 1 },
      { column: "net", label: "Network", format: percent, least: 1 },
      { column: "io", label: "Disk", format: percent, least: 1 },
      { column: "mem", label: "Memory", format: percent, least: 1 },
    ],
  },
  {
    key: "score",
    title: "Score: how much each has left",
    help: "A server's free capacity over all indicators; 1 is idle. At or below H a server is under high load, and the law reacts faster (shaded); above L it has room.",
    views: [{ column: "score", label: "Score", format: count, least: 1, thresholds: true }],
  },
  {
    key: "work",
    title: "What they do",
    help: "Requests finished per second, and how long a request takes, as the load balancers saw it.",
    views: [
      { column: "completed", label: "Requests/s", format: count, stack: true, perS: true, hold: true },
      { column: "latency_ms", label: "Latency", format: milliseconds, hold: true },
    ],
  },
];

function furtherView(name) {
  const label = indicatorOf(name);
  return { column: `further.${name}`, label: label.charAt(0).toUpperCase() + label.slice(1), format: percent, least: 1 };
}

export class Charts {
  #charts = [];
  #drawn = [];
  #slots = new Map();
  #held = null;
  #legend = "";
  #last = null;

  constructor() {
    for (const each of CHARTS) this.#charts.push(this.#frame(each));
  }

  /** Return the colour slot of a server, null if it is drawn with the others. */
  slot(id) {
    return this.#slots.get(id) ?? null;
  }

  /** Draw the history of the servers `drawn`; `overview` is the newest state, `tickS` the seconds between moments. */
  draw(overview, history, drawn, tickS) {
    this.#last = [overview, history, drawn, tickS];
    this.#drawn = drawn;
    this.#slots = slots(this.#drawn, this.#slots);
    this.#showLegend(overview.totals.servers > this.#drawn.length);
    const step = history.moments.length > 1 ? (history.moments.at(-1).atMs - history.moments[0].atMs) / 1000 / (history.moments.length - 1) : tickS;
    const { x, at } = times(history.moments, Math.max(5 * tickS, 3 * step));
    for (const chart of this.#charts) this.#one(chart, overview, x, at, tickS);
    if (this.#held !== null) this.#bringOut(this.#held);
  }

  /** Draw again in the colours of the theme. */
  repaint() {
    for (const { plot } of this.#charts) plot.repaint();
  }

  /** Forget the servers of the previous upstream. */
  reset() {
    this.#drawn = [];
    this.#slots = new Map();
    this.#held = null;
    this.#legend = "";
  }

  #one({ plot, view }, overview, x, at, tickS) {
    const { column, format, stack: summed, max, least, perS, hold, thresholds } = view(overview);
    const { servers } = overview.totals;
    const stack = summed && servers <= MOST_STACKED;
    const scale = perS ? 1 / tickS : 1;
    const plain = lines(at, this.#drawn, column, { scale, hold });
    const series = this.#drawn.map((id) => ({ id, slot: this.#slots.get(id) }));
    if (servers > this.#drawn.length) {
      plain.push(together(at, column, { scale: summed && !stack ? scale / servers : scale, hold, but: stack ? this.#drawn : [] }));
      series.push({ id: stack ? OTHERS : MEAN, slot: null });
    }
    const columns = stack ? stacked(plain) : plain;
    const highest = least === undefined ? undefined : Math.max(least, ...columns.map((each) => each.reduce((a, b) => Math.max(a, b ?? 0), 0)));
    const lined = thresholds && overview.thresholds ? Object.entries(overview.thresholds).map(([name, value]) => ({ name, value })) : [];
    plot.draw(
      { name: column, series, stack, format, max: stack ? (max ?? highest) : highest, thresholds: lined, spans: thresholds ? spans(at, (moment) => moment.alert) : [] },
      [x, ...columns],
      plain,
    );
  }

  #frame({ key, title, help, views, further: more = false }) {
    let shown = [];
    let chosen = views[0];
    const segments = h("span", { class: "segments" });
    const press = () => [...segments.children].forEach((button, index) => button.setAttribute("aria-pressed", String(shown[index] === chosen)));
    const choose = (view) => {
      chosen = view;
      press();
      if (this.#last !== null) this.draw(...this.#last);
    };
    const offer = (wanted) => {
      if (wanted.length === shown.length && wanted.every(({ column }, index) => column === shown[index].column)) return;
      shown = wanted;
      chosen = shown.find(({ column }) => column === chosen.column) ?? shown[0];
      const buttons = shown.map((view) => h("button", { type: "button", on: { click: () => choose(view) } }, view.label));
      segments.replaceChildren(...(shown.length > 1 ? buttons : []));
      press();
    };
    const view = (overview) => {
      offer([...views, ...(more ? further(overview).map(furtherView) : [])]);
      return chosen;
    };
    offer(views);
    const box = h("div", { class: "plot", attr: { role: "img", "aria-label": `${title}. ${help} The figures are in the table below.` } });
    $("charts").append(
      h(
        "figure",
        { class: "chart", id: `chart-${key}` },
        h("figcaption", {}, h("span", { title: help }, title), segments),
        box,
        h("p", { class: "help muted" }, help),
      ),
    );
    return { plot: new Chart(box, { key: "steelyard" }), view };
  }

  #showLegend(more) {
    const text = JSON.stringify([[...this.#slots], more]);
    if (text === this.#legend) return;
    this.#legend = text;
    const chips = this.#drawn.map((id) => {
      const chip = h(
        "button",
        {
          type: "button",
          attr: { "aria-pressed": "false" },
          on: {
            mouseenter: () => this.#bringOut(id),
            mouseleave: () => this.#bringOut(this.#held),
            click: () => {
              this.#held = this.#held === id ? null : id;
              chips.forEach((each, index) => each.setAttribute?.("aria-pressed", String(this.#drawn[index] === this.#held)));
              this.#bringOut(this.#held);
            },
          },
        },
        h("i", { class: `chip s${this.#slots.get(id)}` }),
        id,
      );
      return chip;
    });
    const rest = more ? [h("span", { class: "muted" }, h("i", { class: "chip others" }), `${OTHERS}, or the ${MEAN}`)] : [];
    $("legend").replaceChildren(...chips, ...rest);
  }

  #bringOut(id) {
    for (const { plot } of this.#charts) plot.bringOut(id);
  }
}
