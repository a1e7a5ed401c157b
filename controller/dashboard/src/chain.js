/** The steps from measurements to a weight, as its law describes them, from an explanation. Pure. */

import { count, duration, factor, milliseconds, percent } from "./format.js";

const FORMATS = { count, percent, factor, duration, milliseconds: (seconds) => milliseconds(seconds === null ? null : seconds * 1000) };

const PINNED = [{ label: "Pinned", value: "{pinned:count}", note: "A person fixed its part of the weight; the law decides about the rest." }];

/** The limits of every law, in words; a law has words for its own. */
const LIMITS = {
  pin: "the pins were scaled to leave something to the others",
  one: "raised to 1, the smallest weight",
};

/** Return [{label, value, note}] up to the weight; `law` is its description, undefined if unknown. */
export function chain(explanation, law) {
  const figures = { ...explanation.figures, baseline: explanation.baseline, score: explanation.score, capacity_estimate: explanation.capacity_estimate };
  const steps = figures.pinned != null ? PINNED : (law?.steps ?? []);
  return [...steps.map((step) => filled(step, figures)), result(explanation, { ...LIMITS, ...law?.limits })];
}

function filled({ label, value, note, instead = {} }, figures) {
  const text = (template) => template.replace(/\{(\w+):(\w+)\}/g, (_, name, format) => (FORMATS[format] ?? count)(figures[name]));
  const other = Object.keys(instead).find((name) => figures[name]);
  return { label, value: text(value), note: text(other === undefined ? note : instead[other]) };
}

function result(explanation, words) {
  return {
    label: "Weight",
    value: count(explanation.weight),
    note: `At rest it is ${count(explanation.baseline)}; a tick ago it was ${count(explanation.weight_before)}. Published as ${explanation.published}, a whole number.`,
    limits: explanation.clamps.map((name) => words[name] ?? name),
    last: true,
  };
}
