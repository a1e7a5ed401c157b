import assert from "node:assert/strict";
import { test } from "node:test";
import { Parser } from "../src/sse.js";

function parsed(...pieces) {
  const events = [];
  const parser = new Parser((name, data) => events.push([name, data]));
  pieces.forEach((piece) => parser.feed(piece));
  return events;
}

const STREAM = 'retry: 2000\n\nevent: role\ndata: {"a":1}\n\n: ping\n\nevent: tick\ndata: {"b":"é:2"}\n\n';
const EVENTS = [
  ["role", '{"a":1}'],
  ["tick", '{"b":"é:2"}'],
];

test("events are read, comments and retry are not events", () => assert.deepEqual(parsed(STREAM), EVENTS));

test("pieces may be cut anywhere", () => {
  assert.deepEqual(parsed(...STREAM), EVENTS);
  for (let cut = 1; cut < STREAM.length; cut += 1) assert.deepEqual(parsed(STREAM.slice(0, cut), STREAM.slice(cut)), EVENTS);
});

test("lines may end with CR LF", () => assert.deepEqual(parsed("event: tick\r\ndata: x\r\n\r\n"), [["tick", "x"]]));

test("several data lines are one text", () => assert.deepEqual(parsed("data: a\ndata:b\n\n"), [["message", "a\nb"]]));

test("an unfinished event is not passed on", () => assert.deepEqual(parsed("event: tick\ndata: x\n"), []));

test("a name does not outlive its event", () => assert.deepEqual(parsed("event: tick\n\ndata: x\n\n"), [["message", "x"]]));
