import assert from "node:assert/strict";
import { test } from "node:test";
import { UpstreamHistory, SECONDS, momentOf, query } from "../src/history.js";
import { lines, times as gaps } from "../src/chart_series.js";

function document(atMs, ids = ["a", "b"]) {
  const column = (value) => ids.map(() => value);
  return {
    at_ms: atMs, alert: false, ids, weight: column(1), share: column(1 / ids.length), score: column(null), cpu: column(0.5), net: column(null),
    io: column(0), mem: column(0), completed: column(10), latency_ms: column(null),
  };
}

const times = (history) => history.moments.map((moment) => moment.atMs);

test("an unknown value is NaN, not 0", () => {
  const history = new UpstreamHistory();
  history.add(document(1000));
  assert.ok(Number.isNaN(history.newest.score[0]));
  assert.equal(history.newest.cpu[0], 0.5);
});

test("only the last 15 minutes are kept", () => {
  const history = new UpstreamHistory();
  for (let s = 0; s <= SECONDS + 50; s += 1) history.add(document(s * 1000));
  assert.deepEqual([times(history)[0], times(history).at(-1)], [50_000, 950_000]);
});

test("a history fills the gap among present moments, once", () => {
  const history = new UpstreamHistory();
  [1, 2, 9].forEach((s) => history.add(document(s * 1000)));
  history.merge([2, 4, 6, 9].map((s) => document(s * 1000)));
  assert.deepEqual(times(history), [1, 2, 4, 6, 9].map((s) => s * 1000));
});

test("the same moment twice is one", () => {
  const history = new UpstreamHistory();
  history.add(document(1000));
  history.add(document(1000));
  assert.deepEqual(times(history), [1000]);
});

test("after the clock was set back the newest moment is the newest", () => {
  const history = new UpstreamHistory();
  [10, 11, 12].forEach((s) => history.add(document(s * 1000)));
  history.add(document(10_500));
  assert.deepEqual(times(history), [10_000, 10_500]);
});

test("the query asks for the drawn servers only", () => {
  assert.equal(String(query(["a", "b.c"])), "seconds=900&peer=a&peer=b.c");
});

test("sparse moments of the controller are no gaps", () => {
  const history = new UpstreamHistory();
  history.merge([0, 100, 200].map((s) => document(s * 1000)));
  [300, 301, 320].forEach((s) => history.add(document(s * 1000)));
  const { x } = gaps(history.moments, 5);
  assert.deepEqual(x, [0, 100, 200, 300, 301, 301.001, 320]);
});

test("an overview is a moment", () => {
  const peer = { id: "a", weight: 3, share: 1, score: 0.5, utilization: null, completed_per_tick: 2, latency_ms: null };
  const totals = { share: 1, weight: 3, completed_per_tick: 70, utilization: { cpu: 0.5, queue: 0.25 } };
  const made = momentOf({ issued_at_ms: 5, alert: true, indicators: {}, peers: [peer], totals });
  assert.deepEqual(made.all, { share: 1, weight: 3, completed: 70, cpu: 0.5, "further.queue": 0.25 });
  assert.deepEqual([made.at_ms, made.ids, made.weight, made.cpu, made.completed], [5, ["a"], [3], [null], [2]]);
  const history = new UpstreamHistory();
  history.add(made);
  assert.equal(history.newest.rows.get("a"), 0);
});

test("further indicators have their own columns, and moments without them a gap", () => {
  const history = new UpstreamHistory();
  history.add(document(1000));
  history.add({ ...document(2000), further: { workers: [0.5, null] } });
  assert.deepEqual(lines(history.moments, ["a", "b"], "further.workers"), [[null, 0.5], [null, null]]);
});

test("an overview's further indicators are in its moment, with any name", () => {
  const peer = { id: "a", weight: 3, share: 1, score: 0.5, utilization: { cpu: 0.1, weight: 0.75 }, completed_per_tick: 2, latency_ms: null };
  const indicators = { cpu: { used: true }, weight: { used: true }, queue: { used: true } };
  const made = momentOf({ issued_at_ms: 5, alert: true, peers: [peer], indicators, totals: { utilization: {} } });
  assert.deepEqual([made.weight, made.further], [[3], { weight: [0.75], queue: [null] }]);
});
