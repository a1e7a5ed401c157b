import assert from "node:assert/strict";
import { test } from "node:test";
import { MOST, drawnServers, slots } from "../src/chart_servers.js";
import { busiest, visible } from "../src/table_rows.js";
import { totals } from "../src/totals.js";

function peer(id, changes = {}) {
  return {
    id, address: `10.0.0.1:80`, weight: 100, baseline: 100, state: "up", share: 0.1, pin: null, utilization: { cpu: 0.5, net: null }, sample_age_s: 0.5, silent: false,
    leaving: false, completed_per_tick: 10, failed_per_tick: 0, in_flight: 1, latency_ms: 5, ...changes,
  };
}

const many = Array.from({ length: 40 }, (_, n) => peer(`s${n}`, { share: n / 780 }));
const ids = (rows) => rows.shown.map((each) => each.id);

test("a few servers are all drawn, in their own order", () => {
  assert.deepEqual(drawnServers([peer("b"), peer("a")]), ["b", "a"]);
});

test("of many servers the largest are drawn", () => {
  const drawn = drawnServers(many);
  assert.equal(drawn.length, MOST);
  assert.deepEqual([...drawn].sort(), many.slice(-MOST).map((each) => each.id).sort());
});

test("who is drawn stays drawn until another has twice the share", () => {
  const before = drawnServers(many);
  const least = before.at(-1);
  const closer = many.map((each) => (each.id === "s0" ? { ...each, share: 1.5 * (28 / 780) } : each));
  assert.deepEqual(drawnServers(closer, before), before);
  const larger = many.map((each) => (each.id === "s0" ? { ...each, share: 0.5 } : each));
  assert.deepEqual(drawnServers(larger, before), before.map((id) => (id === least ? "s0" : id)));
});

test("one that left makes room", () => {
  const before = drawnServers(many);
  const left = many.filter((each) => each.id !== before[3]);
  assert.ok(!drawnServers(left, before).includes(before[3]));
  assert.equal(drawnServers(left, before).length, MOST);
});

test("a colour stays with its server", () => {
  const before = slots(["a", "b", "c"]);
  assert.deepEqual([...slots(["c", "d", "a"], before)], [["c", 2], ["a", 0], ["d", 1]]);
});

test("the filter finds names, addresses and states", () => {
  const peers = [peer("web-1"), peer("db-1", { address: "10.9.9.9:80" }), peer("web-2", { state: "drain" })];
  assert.deepEqual(ids(visible(peers, { text: " WEB" })), ["web-1", "web-2"]);
  assert.deepEqual(ids(visible(peers, { text: "10.9" })), ["db-1"]);
  assert.deepEqual(ids(visible(peers, { text: "drain" })), ["web-2"]);
});

test("names sort as people count", () => {
  const peers = [peer("s10"), peer("s9"), peer("s1")];
  assert.deepEqual(ids(visible(peers, { sort: { by: "server", down: false } })), ["s1", "s9", "s10"]);
});

test("what is not known comes last, whichever way it is sorted", () => {
  const peers = [peer("a", { latency_ms: null }), peer("b", { latency_ms: 1 }), peer("c", { latency_ms: 2 })];
  assert.deepEqual(ids(visible(peers, { sort: { by: "latency", down: true } })), ["c", "b", "a"]);
  assert.deepEqual(ids(visible(peers, { sort: { by: "latency", down: false } })), ["b", "c", "a"]);
});

test("at most the limit is shown, and all are counted", () => {
  const rows = visible(many, { limit: 10 });
  assert.deepEqual([rows.shown.length, rows.matching], [10, 40]);
});

test("only those that need a look", () => {
  const peers = [
    peer("well"), peer("drained", { state: "drain" }), peer("silent", { sample_age_s: 31, silent: true }), peer("slow", { sample_age_s: 12 }), peer("young", { sample_age_s: null, silent: true }),
    peer("failing", { failed_per_tick: 1 }), peer("pinned", { pin: 5 }), peer("leaving", { leaving: true }), peer("spare", { state: "backup" }),
  ];
  assert.deepEqual(ids(visible(peers, { attention: true })), ["drained", "silent", "young", "failing", "pinned", "leaving"]);
});

test("the totals are per second, and the latency is per request", () => {
  const peers = [peer("a", { completed_per_tick: 30, latency_ms: 2 }), peer("b", { latency_ms: 10, weight: 50, failed_per_tick: 4 }), peer("c", { state: "down", weight: 1, completed_per_tick: null })];
  const sum = totals({ peers }, 2);
  assert.deepEqual([sum.servers, sum.up, sum.requestsPerS, sum.failedPerS, sum.latencyMs, sum.moved.id], [3, 2, 20, 2, 4, "b"]);
});

test("the busiest of the indicators that count", () => {
  const one = peer("a", { utilization: { cpu: 0.2, workers: 0.7, queue: 0.9 } });
  const indicators = { cpu: { used: true }, workers: { used: true }, queue: { used: false } };
  assert.deepEqual([busiest(one), busiest(one, indicators)], [0.9, 0.7]);
  const other = peer("b", { utilization: { cpu: 0.8 } });
  assert.deepEqual(ids(visible([one, other], { sort: { by: "busy", down: true }, indicators })), ["b", "a"]);
});
