import assert from "node:assert/strict";
import { test } from "node:test";
import { lines, spans, stacked, times, together } from "../src/chart_series.js";

function moment(atS, values, alert = false) {
  const ids = Object.keys(values);
  return { atMs: atS * 1000, alert, ids, rows: new Map(ids.map((id, row) => [id, row])), share: Float32Array.from(Object.values(values), (value) => value ?? NaN) };
}

const PAST = [moment(1, { a: 0.5, b: 0.5 }), moment(2, { a: 0.25, b: 0.75 }), moment(60, { b: 0.5, c: 0.5 })];

test("a time without moments is a gap", () => {
  const { x, at } = times(PAST, 5);
  assert.deepEqual(x, [1, 2, 2.001, 60]);
  assert.equal(at[2], null);
});

test("a server has no value before it was added", () => {
  const { at } = times(PAST, 5);
  assert.deepEqual(lines(at, ["a", "c"], "share"), [
    [0.5, 0.25, null, null],
    [null, null, null, 0.5],
  ]);
});

test("a value is held for up to three moments, and never over a gap", () => {
  const at = [0.5, null, null, null, null].map((value, s) => moment(s, { a: value }));
  assert.deepEqual(lines(at, ["a"], "share", { hold: true }), [[0.5, 0.5, 0.5, 0.5, null]]);
  at[2] = null;
  assert.deepEqual(lines(at, ["a"], "share", { hold: true }), [[0.5, 0.5, null, null, null]]);
});

test("the sum over all servers, or over those not drawn", () => {
  const { at } = times(PAST.map((each) => ({ ...each, all: { share: 1 } })), 5);
  assert.deepEqual(together(at, "share", { scale: 2 }), [2, 2, null, 2]);
  assert.deepEqual(together(at, "share", { but: ["b"] }), [0.5, 0.25, null, 0.5]);
  assert.deepEqual(together(times(PAST, 5).at, "share"), [null, null, null, null]);
});

test("a stack adds up, and a gap stays one", () => {
  assert.deepEqual(stacked([[1, null, 2], [1, null, null], [3, null, 1]]), [
    [1, null, 2],
    [2, null, 2],
    [5, null, 3],
  ]);
});

test("spans are the times in which a condition held", () => {
  const at = [false, true, true, false, true].map((alert, s) => moment(s, { a: 1 }, alert));
  assert.deepEqual(spans(at, (each) => each.alert), [{ fromS: 1, toS: 2 }, { fromS: 4, toS: 4 }]);
});
