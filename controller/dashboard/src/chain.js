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
export function chain(said, law) {
  const figures = { ...said.figures, baseline: said.baseline, score: said.score, capacity_estimate: said.capacity_estimate };
  const steps = figures.pinned != null ? PINNED : (law?.steps ?? []);
  return [...steps.map((step) => filled(step, figures)), result(said, { ...LIMITS, ...law?.limits })];
}

function filled({ label, value, note, instead = {} }, figures) {
  const text = (template) => template.replace(/\{(\w+):(\w+)\}/g, (_, name, format) => (FORMATS[format] ?? count)(figures[name]));
  const other = Object.keys(instead).find((name) => figures[name]);
  return { label, value: text(value), note: text(other === undefined ? note : instead[other]) };
}

function result(said, words) {
  return {
    label: "Weight",
    value: count(said.weight),
    note: `At rest it is ${count(said.baseline)}; a tick ago it was ${count(said.weight_before)}. Published as ${said.published}, a whole number.`,
    limits: said.clamps.map((name) => words[name] ?? name),
    last: true,
  };
}
