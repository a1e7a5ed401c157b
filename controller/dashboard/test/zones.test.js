import assert from "node:assert/strict";
import { test } from "node:test";
import { crossing } from "../src/zones.js";

const zone = (brings, crosses) => ({ brings_per_s: brings, crosses_per_s: crosses });

test("the part that crosses is of the requests of zones in force", () => {
  assert.equal(crossing({ by_zone: [zone(60, 30), zone(40, 0), zone(null, null)] }), 0.3);
});

test("without zones in force or without requests nothing is said to cross", () => {
  assert.equal(crossing({}), null);
  assert.equal(crossing({ by_zone: [zone(null, null)] }), null);
  assert.equal(crossing({ by_zone: [zone(0, 0)] }), null);
});
