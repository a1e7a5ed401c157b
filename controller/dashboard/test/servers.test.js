import assert from "node:assert/strict";
import { test } from "node:test";
import { MOST, drawnServers, slots } from "../src/chart_servers.js";
import { busiest } from "../src/words.js";

const many = Array.from({ length: 40 }, (_, n) => ({ id: `s${n}` }));
const ids = (peers) => peers.map((each) => each.id);

test("a few servers are all drawn, in their own order", () => {
  assert.deepEqual(drawnServers([{ id: "b" }, { id: "a" }]), ["b", "a"]);
});

test("with many servers, the first of the table are drawn", () => {
  assert.deepEqual(drawnServers(many), ids(many.slice(0, MOST)));
});

test("a drawn server stays drawn while the table has it", () => {
  const before = drawnServers(many);
  assert.deepEqual(drawnServers([...many].reverse(), before), before);
});

test("a removed server makes room for the first one not drawn", () => {
  const before = drawnServers(many);
  const drawn = drawnServers(many.filter((each) => each.id !== before[3]), before);
  assert.deepEqual(drawn, [...before.filter((id) => id !== before[3]), `s${MOST}`]);
});

test("a colour stays with its server", () => {
  const before = slots(["a", "b", "c"]);
  assert.deepEqual([...slots(["c", "d", "a"], before)], [["c", 2], ["a", 0], ["d", 1]]);
});

test("the busiest of the counting indicators", () => {
  const one = { utilization: { cpu: 0.2, workers: 0.7, queue: 0.9, io: null } };
  const indicators = { cpu: { used: true }, workers: { used: true }, queue: { used: false } };
  assert.deepEqual([busiest(one), busiest(one, indicators), busiest({ utilization: null })], [0.9, 0.7, null]);
});
