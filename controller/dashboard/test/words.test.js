import assert from "node:assert/strict";
import { test } from "node:test";
import { chain } from "../src/chain.js";
import { link, parse, query } from "../src/route.js";
import { delayMs } from "../src/stream.js";
import { faultOf, headroomOf, indicatorOf, modeOf, remarkOf, roleOf, rungOf, stateOf } from "../src/words.js";

test("the address names an upstream and a server", () => {
  const named = (hash) => [parse(hash).upstream, parse(hash).peer];
  assert.deepEqual(named(""), [null, null]);
  assert.deepEqual(named("#/"), [null, null]);
  assert.deepEqual(named("#/web"), ["web", null]);
  assert.deepEqual(named("#/web/server-1?page=2"), ["web", "server-1"]);
  assert.deepEqual(named("#/%/x"), ["%", "x"]);
  assert.deepEqual(named(link("web", "a.b")), ["web", "a.b"]);
});

test("the address keeps search, order and page, and leaves out defaults", () => {
  const shown = { search: "10.0 &?#/é", order: "-latency", troubled: true, page: 7 };
  assert.deepEqual(parse(link("web", null, shown)), { upstream: "web", peer: null, ...shown });
  assert.equal(link(null, null, { search: "", order: "", troubled: false, page: 1 }), "#/");
  assert.deepEqual(["x", "-3", "1.9", "0"].map((page) => parse(`#/?page=${page}`).page), [1, 1, 1, 1]);
});

test("the API is asked for the page of the address", () => {
  assert.equal(query({ search: "", order: "", troubled: false, page: 3 }, 50), "search=&order=auto&troubled=false&offset=100&limit=50");
});

test("tries grow rarer, and no page waits longer than 10 s", () => {
  assert.deepEqual([1, 2, 3, 10, 5000].map((attempt) => delayMs(attempt, 1)), [500, 1000, 2000, 10_000, 10_000]);
  assert.equal(delayMs(1, 0), 250);
});

test("every rung, state and role has words, and so has an unknown one", () => {
  assert.equal(rungOf({ rung: "drift" }).tone, "warn");
  assert.equal(rungOf(null).label, "Silent");
  assert.equal(rungOf({ rung: "fresh", silent: true }).label, "Silent");
  assert.equal(rungOf({ rung: null }).tone, "plain");
  assert.equal(stateOf({ state: "resting" }).label, "resting");
  assert.equal(stateOf({ state: "down", pod: "unready" }).label, "not ready");
  assert.equal(stateOf({ state: "drain", pod: "terminating" }).label, "terminating");
  assert.equal(stateOf({ state: "drain", pod: "unready" }).label, "draining");
  assert.equal(roleOf({ id: "c1", installation: null, role: "leader", term: 3 }).label, "c1 leads");
  assert.equal(roleOf({ id: "c1", installation: "shop", role: "leader", term: 3 }).label, "shop: c1 leads");
  assert.equal(roleOf({ id: "c1", role: "standby", leader: { id: "c2" } }).text.startsWith("c2 decides"), true);
  assert.equal(roleOf(null).label, "…");
});

test("the mode names its threshold", () => {
  assert.equal(modeOf({ thresholds: { H: 0.3, L: 0.4 }, alert: true }).label, "High load");
  assert.match(modeOf({ thresholds: { H: 0.3, L: 0.4 }, alert: false }).text, /H = 0.3/);
  assert.equal(modeOf({ thresholds: null, alert: false }).tone, "plain");
});

test("headroom is the rest, the lack, or the reason why it is unknown", () => {
  const headroomWords = (left, ratio) => headroomOf({ headroom: { could_carry_per_s: 400, carries_per_s: 400 - left, left_per_s: left, ratio, servers: 1 } });
  assert.deepEqual(headroomWords(100, 0.25), { tone: "", label: "25 %", text: "Carries 300 of the 400 requests/s that 1 server could carry without high load." });
  assert.deepEqual([headroomWords(36, 0.09).tone, headroomWords(-20, 0).tone, headroomWords(-20, 0).label], ["warn", "bad", "lacks 20/s"]);
  assert.deepEqual(headroomOf({ headroom: { left_per_s: null, ratio: null, unknown: "no traffic" } }), { tone: "", label: "–", text: "Not known: no traffic." });
});

const SAID = { law: "mine", weight: 197.4, weight_before: 198, published: 197, baseline: 200, capacity_estimate: 389, score: 0.5, clamps: [], figures: { backlog: 0.88, backlog_s: 0.2, hot: 1, cold: null, pinned: null } };
const LAW = {
  steps: [
    { label: "Backlog", value: "{backlog:factor}", note: "{backlog_s:milliseconds} wait, {gone:percent} of {baseline:count}; {backlog:of_tomorrow}.", instead: {} },
    { label: "Mode", value: "{score:count}", note: "neither", instead: { cold: "cold", hot: "hot" } },
  ],
  limits: { floor: "at the least part" },
};

test("a chain ends with the weight, for any law", () => {
  assert.deepEqual(chain(SAID, LAW).map(({ label }) => label), ["Backlog", "Mode", "Weight"]);
  assert.deepEqual(chain(SAID, undefined).map(({ label }) => label), ["Weight"]);
});

test("a step has its figures, each in its format, and the fitting note", () => {
  const [backlog, mode] = chain(SAID, LAW);
  assert.deepEqual([backlog.value, backlog.note], ["×0.88", "200 ms wait, – of 200; 0.88."]);
  assert.deepEqual([mode.value, mode.note], ["0.5", "hot"]);
});

test("limits have the words of the law, or of the page, or their name", () => {
  const { limits } = chain({ ...SAID, clamps: ["floor", "one", "new"] }, LAW).at(-1);
  assert.deepEqual(limits, ["at the least part", "raised to 1, the smallest weight", "new"]);
});

test("a pinned server is explained by its pin", () => {
  assert.deepEqual(chain({ ...SAID, figures: { pinned: 250 } }, LAW).map(({ label }) => label), ["Pinned", "Weight"]);
});

test("an indicator without effect shows the reason", () => {
  assert.equal(remarkOf({ used: false, knee: null, reporting: 2 }), "not declared: moves nothing");
  assert.equal(remarkOf({ used: true, knee: 0.5, reporting: 0 }), "no server reports it: moves nothing");
  assert.equal(remarkOf({ used: true, knee: 0.8, reporting: 2 }), "counts as load above 80 %");
  assert.equal(remarkOf({ used: true, knee: null, reporting: 2 }), "");
  assert.deepEqual([indicatorOf("io"), indicatorOf("kv_cache_usage"), indicatorOf("constructor")], ["disk", "kv cache usage", "constructor"]);
});

test("a fault of the controller has its effect, and an unknown one its own words", () => {
  assert.deepEqual(faultOf("state: Error 111 connecting to 10.0.0.1:6379."), {
    title: "Redis is away.",
    text: "The weights go on. Until it is back, nothing can be changed, and the log of changes cannot be read.",
    detail: "Error 111 connecting to 10.0.0.1:6379.",
  });
  assert.equal(faultOf("terms: Memcached holds a table of term 7 (web)").title, "Another control plane uses this Memcached.");
  assert.equal(faultOf("memcached 10.0.0.1:11211: no answer").title, "Memcached 10.0.0.1:11211 is away.");
  assert.deepEqual(faultOf("Envoy: a: b"), { title: "The controller has a fault.", text: "", detail: "Envoy: a: b" });
});
