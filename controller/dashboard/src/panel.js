/** The explanation of a server's weight: the steps from measurements, and the shadow laws' weights. */

import { pathOf, request } from "./api.js";
import { chain } from "./chain.js";
import { $, badge, fill, h } from "./dom.js";
import { count, duration, milliseconds, percent } from "./format.js";
import { indicatorOf, remarkOf, stateOf } from "./words.js";

// An explanation is asked for as often as a person can read it.
const EVERY_MS = 2000;

export class Panel {
  #open = null;
  #buttons = null;
  #askedMs = 0;
  #body = h("div", { class: "panel-body" });
  #actions;

  /** `closed` is called when a person closes it; `actions(upstream, id)` returns a server's buttons. */
  constructor(actions, closed) {
    this.#actions = actions;
    $("panel").addEventListener("close", () => {
      if (this.#open !== null) {
        this.#open = null;
        closed();
      }
    });
    // A press beside the panel is on the dialog itself.
    $("panel").addEventListener("click", (event) => event.target === $("panel") && $("panel").close());
  }

  /** Show a server, or with null close. */
  show(upstream, id) {
    if (id === null) {
      if (this.#open !== null) {
        this.#open = null;
        $("panel").close();
      }
      return;
    }
    if (this.#open?.id === id && this.#open?.upstream === upstream) return;
    this.#open = { upstream, id };
    this.#askedMs = 0;
    this.#buttons = this.#actions(upstream, id);
    fill(this.#body, h("p", { class: "muted" }, "Asking…"));
    $("panel").replaceChildren(
      h(
        "div",
        { class: "panel-head" },
        h("h2", { id: "panel-title" }, id),
        h("button", { type: "button", class: "quiet", attr: { "aria-label": "Close" }, on: { click: () => $("panel").close() } }, "✕"),
      ),
      this.#buttons.element,
      this.#body,
    );
    if (!$("panel").open) $("panel").showModal();
  }

  /** Follow the newest overview; `laws` are the descriptions of all laws by name, null until they arrive. */
  async draw(overview, laws) {
    if (this.#open === null) return;
    const { upstream, id } = this.#open;
    const shown = overview.peers.find((each) => each.id === id);
    if (shown !== undefined) this.#buttons.update(shown);
    if (laws === null || Date.now() - this.#askedMs < EVERY_MS) return;
    this.#askedMs = Date.now();
    try {
      const explanation = await request("GET", pathOf(upstream, "peers", id, "explain"));
      // It may be on another page of the table.
      const peer = shown ?? (await request("GET", pathOf(upstream, "peers", id))).live;
      if (this.#open?.id !== id) return;
      this.#buttons.update(peer);
      this.#show(explanation, peer, overview, laws[explanation.law]);
    } catch (problem) {
      if (this.#open?.id === id) fill(this.#body, h("p", { class: "wrong" }, problem.message));
    }
  }

  #show(explanation, peer, overview, law) {
    const open = this.#body.querySelector("details")?.open ?? false;
    const state = stateOf(peer);
    fill(
      this.#body,
      h("p", { class: "lead" }, badge(state), " ", `${peer.address}, ${percent(peer.share)} of the requests`),
      h("h3", {}, "Why this weight"),
      h("p", { class: "sentence" }, explanation.sentence),
      h("ol", { class: "chain" }, ...chain(explanation, law).map(step)),
      h("h3", {}, "What was measured"),
      measured(explanation, peer),
      h("h3", {}, "Score"),
      ...score(explanation, overview),
      ...shadows(explanation),
      h(
        "details",
        { open },
        h("summary", { attr: { "data-key": "figures" } }, "Every figure of this decision"),
        h("dl", { class: "figures" }, ...Object.entries(explanation.figures).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value === null ? "not known" : String(+value.toPrecision(6)))])),
      ),
    );
  }
}

function step({ label, value, note, limits = [], last = false }) {
  return h(
    "li",
    { class: last ? "last" : "" },
    h("span", { class: "step" }, h("span", {}, label), h("b", {}, value)),
    h("small", {}, note),
    ...limits.map((limit) => h("small", { class: "limit" }, `Limit: ${limit}.`)),
  );
}

function measured(explanation, peer) {
  const rows = Object.entries(explanation.indicators).map(([name, indicator]) => {
    const value = peer.utilization?.[name] ?? null;
    const level = h("i", { class: "fill" });
    level.style.width = `${Math.min(1, value ?? 0) * 100}%`;
    const remark = remarkOf(indicator);
    return h(
      "div",
      { class: `line ${indicator.used ? "" : "unused"}` },
      h("span", {}, indicatorOf(name)),
      h("span", { class: "track" }, level),
      h("b", {}, value === null ? "not measured" : percent(value)),
      remark ? h("small", { class: "muted" }, remark) : null,
    );
  });
  const traffic = [
    `${count(explanation.figures.completed)} requests finished and ${count(explanation.figures.failed)} failed in the last interval`,
    `${count(explanation.figures.in_flight)} in flight${explanation.figures.open ? `, ${count(explanation.figures.open)} of them merely open` : ""}`,
    `${milliseconds(peer.latency_ms)} a request`,
  ];
  const age = peer.sample_age_s === null ? "Its agent has sent nothing yet." : `Its agent's sample is ${duration(peer.sample_age_s)} old.`;
  return h("div", {}, ...rows, h("p", { class: "muted" }, `${traffic.join(", ")}. ${age}`));
}

function score(explanation, overview) {
  if (explanation.score === null) return [h("p", { class: "muted" }, "Unknown: the server has no sample.")];
  const marks = Object.entries(overview.thresholds ?? {}).map(([name, value]) => {
    const mark = h("i", { class: "mark", title: `${name} = ${value}` }, name);
    mark.style.left = `${value * 100}%`;
    return mark;
  });
  const level = h("i", { class: "fill" });
  level.style.width = `${Math.min(1, Math.max(0, explanation.score)) * 100}%`;
  const parts = Object.entries(explanation.entropy_weights).map(([name, part]) => `${indicatorOf(name)} ${percent(part)}`);
  return [
    h("div", { class: "line score" }, h("span", {}, "free"), h("span", { class: "track" }, level, ...marks), h("b", {}, explanation.score.toFixed(2))),
    h("p", { class: "muted" }, `1 is idle. The indicators count now as follows: ${parts.join(", ")}. An indicator counts more if it differs more between the servers.`),
  ];
}

function shadows(explanation) {
  const laws = Object.entries(explanation.shadows);
  if (laws.length === 0) return [];
  return [
    h("h3", {}, "Weights by other laws"),
    ...laws.map(([law, other]) => h("p", {}, h("b", {}, `${law}: `), other.sentence)),
    h("p", { class: "muted" }, "They run beside the live one, and move nothing."),
  ];
}
