/** The steps from what was measured to a weight, by law, out of an explanation. Pure. */

import { count, duration, factor, milliseconds, percent } from "./format.js";

/** Return [{label, value, note}] that end with the weight. */
export function chain(said) {
  const steps = said.figures.pinned != null ? pinned(said) : (LAWS[said.law] ?? plain)(said);
  return [...steps, ...result(said)];
}

function steelyard({ figures: of, capacity_estimate: able }) {
  return [
    {
      label: "What it can do",
      value: `${count(able)} requests per busy second`,
      note: `Seen: ${count(of.evidence_requests)} requests in ${duration(of.evidence_busy_s)} of work. ${percent(of.prior_share)} of the estimate is its baseline.`,
    },
    {
      label: "Not ours",
      value: percent(of.not_ours),
      note: "The part of it that something else keeps busy, a neighbour or a cron job: already taken off above.",
    },
    {
      label: "Backlog",
      value: factor(of.backlog),
      note: `Work worth ${milliseconds(of.backlog_s * 1000)} waits in it; the mean of all is ${milliseconds(of.mean_backlog_s * 1000)}.`,
    },
    { label: "Slowness", value: factor(of.slow), note: "Below 1 when it answers slower than its load explains." },
    { label: "Failures", value: factor(of.err), note: "Below 1 when more of its requests fail than the others'." },
    { label: "Slow start", value: factor(of.join), note: "Below 1 while it is new. What is the same for all servers changes nothing." },
  ];
}

function paper({ figures: of, score }) {
  const load = of.high_load ? "high load (at most H)" : of.low_load ? "low load (at least L)" : "neither high nor low load";
  return [
    { label: "Score", value: count(score), note: `Its free capacity, each indicator by its weight: ${load}.` },
    { label: "Share of all scores", value: percent(of.share), note: "Multiplied with its baseline while it is under high or low load." },
  ];
}

function cswrr({ figures: of, capacity_estimate: able }) {
  return [
    { label: "What it does", value: `${count(able)} requests per unit of utilization`, note: of.own_weight ? "It has a weight of its own." : "It has no weight of its own yet." },
    { label: "Median of the others", value: count(of.median_weight), note: "Taken while a server has no weight of its own." },
  ];
}

function pinned({ figures: of }) {
  return [{ label: "Pinned", value: count(of.pinned), note: "A person fixed its part of the weight; the law decides about the rest." }];
}

function plain({ baseline }) {
  return [{ label: "Baseline", value: count(baseline), note: "This law keeps it." }];
}

const LAWS = { steelyard, paper, cswrr, static: plain };

const CLAMPS = {
  residual: "free capacity was cut to 0…100 %",
  backlog: "the factor for its backlog is at its limit",
  floor: "at the least part of the baseline that the law gives",
  ceiling: "at the largest multiple of the baseline that the law gives",
  pin: "the pins were scaled to leave something to the others",
  one: "raised to 1, the least there is",
};

function result(said) {
  const limits = said.clamps.map((name) => CLAMPS[name] ?? name);
  return [
    {
      label: "Weight",
      value: count(said.weight),
      note: [`At rest it is ${count(said.baseline)}; a tick ago it was ${count(said.weight_before)}.`, `Published as ${said.published}, so that all are whole numbers.`].join(" "),
      limits,
      last: true,
    },
  ];
}
