/** The textual parts of an upstream's page: tiles, zones, load balancers, refused values, the law. */

import { $, badge, fill, h, set, text } from "./dom.js";
import { against, count, duration, many, milliseconds, percent } from "./format.js";
import { headroomTile, level, tile } from "./tiles.js";
import * as zones from "./zones.js";
import { headroomOf, indicatorOf, modeOf, rungOf } from "./words.js";

/** Show all of it; `described` is the law's description, undefined without one. */
export function draw(overview, tickS, described) {
  tiles(overview, tickS);
  zones.draw(overview);
  balancers(overview);
  refused(overview.refused);
  law(overview, described);
}

function tiles(overview, tickS) {
  const sum = overview.totals;
  const mode = modeOf(overview);
  const room = headroomOf(overview);
  const { headroom } = overview;
  const moved = sum.moved && against(sum.moved.weight, sum.moved.baseline) !== "as at rest" ? sum.moved : null;
  const out = sum.servers - sum.up;
  const far = zones.crossing(overview);
  const ended = sum.completed_per_tick + sum.failed_per_tick;
  const left = headroom.left_per_s === null ? "not known yet" : headroom.left_per_s < 0 ? "more than it can carry" : `${count(headroom.left_per_s)}/s left`;
  fill(
    $("tiles"),
    tile("Requests/s", count(sum.completed_per_tick / tickS), { note: `of ${count(headroom.could_carry_per_s)} possible`, title: room.text }),
    headroomTile("Headroom", room.label, headroom.ratio, left, { tone: room.tone, title: room.text }),
    tile("Failed/s", count(sum.failed_per_tick / tickS), { tone: sum.failed_per_tick > 0 ? "bad" : "", note: sum.failed_per_tick > 0 ? `${percent(sum.failed_per_tick / ended)} of all` : "none" }),
    tile("Latency", milliseconds(sum.latency_ms), { note: "median" }),
    tile("Servers up", `${count(sum.up)} of ${count(sum.servers)}`, { tone: sum.up === 0 ? "bad" : "", note: out > 0 ? `${count(out)} out` : "all" }),
    tile("In flight", count(sum.in_flight), { note: sum.up > 0 ? `${count(Math.round((10 * sum.in_flight) / sum.up) / 10)} a server` : "" }),
    far === null ? null : tile("Cross zones", percent(far), { note: "of the requests" }),
    tile("Mode", mode.label, { tone: mode.tone === "warn" ? "warn" : "", note: mode.note, title: mode.text }),
    tile("Largest move", moved ? against(moved.weight, moved.baseline) : "none", { note: moved?.id ?? "all as at rest", title: "The server with the weight furthest from its baseline." }),
  );
  const words = level(overview);
  set($("one-level"), "className", `badge ${words.tone}`);
  set($("one-level"), "title", words.text);
  text($("one-level"), words.label);
  text($("one-troubles"), overview.troubles.join(" · "));
}

function balancers(overview) {
  const rows = Object.entries(overview.load_balancers).map(([name, balancer]) => {
    const rung = rungOf(balancer);
    const details = balancer === null ? [] : [`Report ${duration(balancer.report_age_s)} old`, behind(balancer.order, overview), balancer.zone ? `in zone ${balancer.zone}` : "", balancer.declared === false ? "not declared: read while it reports" : ""];
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
