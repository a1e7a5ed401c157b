/** The textual parts of an upstream's page: tiles, load balancers, refused values, the law. */

import { $, badge, fill, h } from "./dom.js";
import { against, count, duration, many, milliseconds, percent } from "./format.js";
import { headroomOf, indicatorOf, modeOf, rungOf } from "./words.js";

/** Show all of it; `described` is the law's description, undefined without one. */
export function draw(overview, tickS, described) {
  tiles(overview, tickS);
  balancers(overview);
  refused(overview.refused);
  law(overview, described);
}

function tiles(overview, tickS) {
  const sum = overview.totals;
  const mode = modeOf(overview);
  const room = headroomOf(overview);
  const moved = sum.moved && against(sum.moved.weight, sum.moved.baseline) !== "as at rest" ? sum.moved : null;
  fill(
    $("tiles"),
    tile("Servers up", `${count(sum.up)} of ${count(sum.servers)}`, sum.up === 0 ? "bad" : ""),
    tile("Requests/s", count(sum.completed_per_tick / tickS)),
    tile("Headroom", room.label, room.tone, room.text),
    tile("Failed/s", count(sum.failed_per_tick / tickS), sum.failed_per_tick > 0 ? "bad" : ""),
    tile("Latency", milliseconds(sum.latency_ms)),
    tile("In flight", count(sum.in_flight)),
    tile("Mode", mode.label, mode.tone === "warn" ? "warn" : "", mode.text),
    tile("Largest move", moved ? `${moved.id} ${against(moved.weight, moved.baseline)}` : "none", "", "The server with the weight furthest from its baseline."),
  );
}

function tile(label, value, tone = "", title = "") {
  return h("div", { class: `tile ${tone}`, title }, h("span", { class: "muted" }, label), h("b", {}, value));
}

function balancers(overview) {
  const rows = Object.entries(overview.load_balancers).map(([name, balancer]) => {
    const rung = rungOf(balancer);
    const details = balancer === null ? [] : [`Report ${duration(balancer.report_age_s)} old`, behind(balancer.order, overview), balancer.declared === false ? "not declared: read while it reports" : ""];
    return h("li", {}, h("div", {}, h("b", {}, name), " ", badge(rung)), h("small", {}, [rung.text, details.filter(Boolean).join(", ")].filter(Boolean).join(" ")));
  });
  fill($("balancers"), rows.length > 0 ? h("ul", { class: "items" }, ...rows) : h("p", { class: "muted" }, "None reports, and none is declared."));
}

function behind(order, { term, generation }) {
  if (order === null || order === undefined) return "";
  const [its, table] = order;
  if (its > term) return "holds a table of a higher term, and refuses this controller's";
  if (its !== term) return "still has the table of an earlier leader";
  return table >= generation - 2 ? "has the current table" : `${many(generation - table, "table")} behind`;
}

function refused({ now, sources, count: counts }) {
  const rows = Object.entries(now).map(([source, why]) => h("li", {}, h("div", {}, h("b", {}, source), " ", badge({ tone: "bad", label: "refused" })), h("small", {}, why)));
  const before = Object.entries(counts).map(([reason, times]) => `${reason.replaceAll("_", " ")} ${count(times)}×`);
  fill(
    $("refused"),
    rows.length > 0 ? h("ul", { class: "items" }, ...rows) : h("p", {}, "None: every sample and report is as it should be."),
    sources > rows.length ? h("p", { class: "muted" }, `and ${count(sources - rows.length)} more`) : null,
    before.length > 0 ? h("p", { class: "muted" }, `Since the start: ${before.join(", ")}.`) : null,
  );
}

function law(overview, described) {
  const { thresholds } = overview;
  const parts = Object.entries(overview.entropy_weights).map(([name, part]) => {
    const level = h("i", { class: "fill" });
    level.style.width = `${part * 100}%`;
    return h("div", { class: "line" }, h("span", {}, indicatorOf(name)), h("span", { class: "track", attr: { "aria-hidden": "true" } }, level), h("b", {}, percent(part)));
  });
  const unused = Object.entries(overview.indicators).filter(([, each]) => !each.used).map(([name]) => name);
  fill(
    $("law"),
    h("p", {}, h("b", {}, overview.law), described ? `: ${described.sentence}.` : ""),
    thresholds && h("p", { class: "muted" }, `High load at a score of H = ${thresholds.H} or below, room from L = ${thresholds.L} on. ${modeOf(overview).text}`),
    h("p", { class: "muted" }, "How much each indicator counts in the score now:"),
    ...parts,
    unused.length > 0 ? h("p", { class: "muted" }, `Reported and not declared, so without effect: ${unused.map(indicatorOf).join(", ")}.`) : null,
    overview.shadow_laws.length > 0 ? h("p", { class: "muted" }, `Beside it, without effect: ${overview.shadow_laws.join(", ")}.`) : null,
  );
}
