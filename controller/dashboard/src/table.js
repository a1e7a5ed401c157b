/** The table of servers: two lines each; only changes are painted. */

import { $, h, set, text } from "./dom.js";
import { against, count, duration, milliseconds, percent } from "./format.js";
import { link } from "./route.js";
import { part, searchBox } from "./pager.js";
import { busiest, indicatorOf, remarkOf, stateOf } from "./words.js";

export const ROWS = 50;

const COLUMNS = [
  ["name", "Server", "Name and address"],
  ["share", "Share", "Intended part of all requests"],
  ["weight", "Weight", "Present weight, and its distance from the baseline, the weight at rest (the mark in the bar)"],
  ["busy", "Busy", "Utilization of CPU, network, disk and memory, and of the application's own resources, as its agent measured it"],
  ["requests", "Req/s", "Requests finished per second"],
  ["failed", "Failed/s", "Requests failed per second"],
  ["latency", "Latency", "Time to the response's header, the median of each load balancer's requests"],
  ["flight", "In flight", "Requests under way at the end of the last interval, and the number of merely open ones, for which nothing waits"],
  ["age", "Sample", "How old its agent's last sample is"],
];

export class Table {
  #order = "";
  #rows = new Map();
  #heads = new Map();
  #actions;
  #asked;
  #search;

  /** `actions` returns the buttons of a server; `asked` is called with the servers in the address. */
  constructor(actions, asked) {
    this.#actions = actions;
    this.#asked = asked;
    $("table").append(this.#head());
    this.#search = searchBox($("filter"), asked);
    $("attention").addEventListener("change", (event) => asked({ troubled: event.target.checked }));
  }

  /** Forget another upstream's rows. */
  reset() {
    for (const row of this.#rows.values()) row.body.remove();
    this.#rows.clear();
  }

  /** Show the servers of an overview; `slot` returns a server's colour, `route` is the address, `to` one with a change. */
  draw(overview, tickS, slot, route, to) {
    this.#search(route.search);
    set($("attention"), "checked", route.troubled);
    this.#order = route.order;
    this.#showSort();
    const indicators = overview.indicators;
    const shown = overview.peers;
    const most = Math.max(...shown.map((peer) => peer.weight / peer.baseline), 1);
    const wanted = new Set(shown.map((peer) => peer.id));
    for (const [id, row] of this.#rows) {
      if (!wanted.has(id)) {
        row.body.remove();
        this.#rows.delete(id);
      }
    }
    let before = $("table").tHead;
    for (const peer of shown) {
      let row = this.#rows.get(peer.id);
      if (row === undefined) this.#rows.set(peer.id, (row = this.#row(overview.upstream, peer.id)));
      // Moving a row in its right place would take the focus out of it.
      if (before.nextSibling !== row.body) before.after(row.body);
      before = row.body;
      row.name.setAttribute("href", link(overview.upstream, peer.id, route));
      update(row, peer, { tickS, slot: slot(peer.id), most, indicators });
    }
    const { matching, totals } = overview;
    part({ of: $("servers-matching"), order: $("order"), pages: $("pages") }, { matching, total: totals.servers, limit: ROWS }, route, to);
  }

  #head() {
    const fields = COLUMNS.map(([by, label, title]) => {
      const button = h("button", { type: "button", title, on: { click: () => this.#sort(by) } }, label);
      const field = h("th", { scope: "col", class: `c-${by}`, attr: { role: "columnheader" } }, button);
      this.#heads.set(by, field);
      return field;
    });
    const last = h("th", { scope: "col", class: "c-do", attr: { role: "columnheader" } }, h("span", { class: "hidden" }, "Actions"));
    return h("thead", { attr: { role: "rowgroup" } }, h("tr", { attr: { role: "row" } }, ...fields, last));
  }

  #sort(by) {
    // Names begin with a, figures with the largest; the third press restores the default order.
    const orders = by === "name" ? [by, `-${by}`, ""] : [`-${by}`, by, ""];
    this.#asked({ order: orders[(orders.indexOf(this.#order) + 1) % 3] });
  }

  #showSort() {
    const sorted = { [this.#order.replace("-", "")]: this.#order.startsWith("-") ? "descending" : "ascending" };
    for (const [by, field] of this.#heads) set(field, "ariaSort", sorted[by] ?? "none");
  }

  #row(upstream, id) {
    const fields = Object.fromEntries(COLUMNS.map(([by, label]) => [by, h("td", { class: `c-${by}`, attr: { role: "cell", "data-label": label } })]));
    const made = { fields, chip: h("i", { class: "chip" }), address: h("small", {}), state: h("span", { class: "badge" }) };
    made.name = h("a", { title: `Why does ${id} have this weight?` }, id);
    fields.name.append(made.chip, h("span", { class: "name" }, made.name, made.address), made.state);
    made.share = bar(fields.share);
    made.weight = bar(fields.weight);
    made.mark = h("i", { class: "mark" });
    made.weight.track.append(made.mark);
    made.used = meters(fields.busy);
    made.why = h("td", { class: "why", colSpan: COLUMNS.length, attr: { role: "cell" } });
    made.actions = this.#actions(upstream, id);
    const buttons = h("td", { class: "c-do", rowSpan: 2, attr: { role: "cell" } }, made.actions.element);
    made.body = h(
      "tbody",
      { attr: { role: "rowgroup", "data-peer": id } },
      h("tr", { attr: { role: "row" } }, ...Object.values(fields), buttons),
      h("tr", { class: "reason", attr: { role: "row" } }, made.why),
    );
    return made;
  }
}

function update(row, peer, { tickS, slot, most, indicators }) {
  const state = stateOf(peer);
  const troubles = peer.troubles;
  set(row.chip, "className", `chip ${slot === null ? "others" : `s${slot}`}`);
  text(row.address, peer.zone ? `${peer.address}, ${peer.zone}` : peer.address);
  set(row.state, "className", `badge ${state.tone}`);
  set(row.state, "title", state.text);
  text(row.state, state.label);
  text(row.share.label, percent(peer.share));
  row.share.fill.style.width = `${peer.share * 100}%`;
  text(row.weight.label, `${count(peer.weight)} (${against(peer.weight, peer.baseline)})`);
  row.weight.fill.style.width = `${(peer.weight / peer.baseline / most) * 100}%`;
  row.mark.style.left = `${100 / most}%`;
  row.used(peer, indicators);
  text(row.fields.requests, count((peer.completed_per_tick ?? NaN) / tickS));
  text(row.fields.failed, count((peer.failed_per_tick ?? NaN) / tickS));
  row.fields.failed.classList.toggle("bad", peer.failed_per_tick > 0);
  text(row.fields.latency, milliseconds(peer.latency_ms));
  text(row.fields.flight, inFlight(peer));
  text(row.fields.age, duration(peer.sample_age_s));
  row.fields.age.classList.toggle("bad", peer.silent);
  text(row.why, troubles.length > 0 ? `${sentence(peer)} (${troubles.join(", ")})` : sentence(peer));
  row.body.classList.toggle("out", peer.state === "drain" || peer.state === "down");
  row.actions.update(peer);
}

/** Idle connections and streams are no queue: they are shown apart, if there are any. */
function inFlight({ in_flight: flight, open }) {
  return open >= 1 ? `${count(flight)} (${count(open)} open)` : count(flight);
}

/** The reason begins with the weight, which has its own column. */
function sentence({ why }) {
  const reason = why.replace(/^\d+: /, "");
  return reason.charAt(0).toUpperCase() + reason.slice(1);
}

function bar(field) {
  const made = { label: h("span", { class: "figure" }), fill: h("i", { class: "fill" }) };
  made.track = h("span", { class: "track", attr: { "aria-hidden": "true" } }, made.fill);
  field.append(made.label, made.track);
  return made;
}

/** A small meter for each indicator, and the largest in words; returns a function that updates them. */
export function meters(field) {
  const label = h("span", { class: "figure" });
  const boxes = h("span", { class: "meters", attr: { "aria-hidden": "true" } });
  let made = [];
  field.append(label, boxes);
  return (peer, indicators) => {
    const names = Object.keys(indicators);
    if (names.join() !== made.map(({ name }) => name).join()) {
      made = names.map(meter);
      boxes.replaceChildren(...made.map(({ box }) => box));
      boxes.classList.toggle("many", names.length > 4);
    }
    text(label, percent(busiest(peer, indicators)));
    const words = [];
    for (const { name, level, box } of made) {
      const value = peer.utilization?.[name] ?? null;
      const remark = remarkOf(indicators[name]);
      level.style.height = `${Math.min(1, value ?? 0) * 100}%`;
      box.classList.toggle("full", value !== null && value > 0.9);
      box.classList.toggle("none", value === null);
      box.classList.toggle("unused", !indicators[name].used);
      words.push(`${indicatorOf(name)} ${value === null ? "not measured" : percent(value)}${remark && ` (${remark})`}`);
    }
    set(field, "title", words.join(", "));
  };
}

function meter(name) {
  const level = h("i", { class: "fill" });
  return { name, level, box: h("span", { class: "meter" }, h("span", { class: "track" }, level), h("small", {}, name.replaceAll("_", " "))) };
}
