import assert from "node:assert/strict";
import { test } from "node:test";
import { UNKNOWN, against, count, duration, factor, many, milliseconds, percent, since } from "../src/format.js";

test("an unknown value is a dash, never a zero", () => {
  for (const write of [count, percent, milliseconds, duration, factor]) {
    for (const value of [null, undefined, NaN]) assert.equal(write(value), UNKNOWN);
  }
});

test("a count has three digits at most", () => {
  assert.deepEqual([0, 7, 12.345, 0.5, 99.96, 812.4, 9999, 12345, 4.2e6].map(count), ["0", "7", "12.3", "0.5", "100", "812", "9999", "12.3k", "4.2M"]);
});

test("zeros before the point stay", () => {
  assert.deepEqual([10.04, 20_000, 100_000_000].map(count), ["10", "20k", "100M"]);
});

test("a small share is not shown as nothing", () => {
  assert.deepEqual([0, 0.000004, 0.0000987, 0.0004, 0.004, 0.0994, 0.0996, 0.31, 1].map(percent), ["0 %", "<0.001 %", "0.0099 %", "0.04 %", "0.4 %", "9.9 %", "10 %", "31 %", "100 %"]);
});

test("a latency is in a fitting unit", () => {
  assert.deepEqual([0, 4.12, 17.4, 1234].map(milliseconds), ["0.0 ms", "4.1 ms", "17 ms", "1.23 s"]);
});

test("an age grows coarser", () => {
  assert.deepEqual([0.04, 9.96, 60, 150, 8000, 200_000].map(duration), ["0.0 s", "10 s", "60 s", "3 min", "2 h", "2 d"]);
});

test("a weight is shown with its distance from the baseline", () => {
  assert.deepEqual([against(112, 100), against(62, 100), against(100.2, 100), against(1, 0)], ["+12 %", "−38 %", "as at rest", UNKNOWN]);
});

test("a factor that changes nothing is ×1", () => {
  assert.deepEqual([1, 0.88, 0.021].map(factor), ["×1", "×0.88", "×0.021"]);
});

test("one is not many", () => {
  assert.deepEqual([many(1, "server"), many(3, "server")], ["1 server", "3 servers"]);
});

test("the age of a change is in words, and after a day it is a date", () => {
  const ages = [0, 59_000, 61_000, 7_200_000].map((ageMs) => since(1e12 - ageMs, 1e12));
  assert.deepEqual(ages, ["just now", "just now", "61 s ago", "2 h ago"]);
  assert.equal(since(0, 1e12), new Date(0).toLocaleDateString());
});
