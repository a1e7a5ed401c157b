/** "What is what": the words of the page, for somebody who has not read the manual. */

import { $, h } from "./dom.js";
import { RUNGS, STATES } from "./words.js";

const WORDS = [
  ["Share", "The part of all requests that a server is meant to get. Shares of all servers that are up make 100 %."],
  ["Weight, baseline", "A server's share comes from its weight. The baseline is its weight at rest, from its configuration; the controller moves the weight up or down from there, once a second."],
  ["Busy", "How much of its CPU, network, disk and memory a server uses, and of what its application reports, such as a pool of workers, as the agent on it measured. A dash is “not measured”, never a guess."],
  ["Score, H and L", "How much a server has left over all indicators that count: 1 is idle, 0 is full. At or below H it is under high load; at or above L it has room to take load from such a server."],
  ["High load, calm", "While any server is under high load, the controller believes changes faster. That is all that “high load” means for you: it is shown, not an error."],
  ["Headroom", "What is left of the requests/s that the servers could carry without high load, beside what others take of them: the figure to start and stop servers by. A server counts that gets requests, is measured and does not leave."],
  ["Worst first", "Servers whose requests fail, then silent agents, those without a sample, then who is down, being stopped, draining or pinned, then those whose weight is furthest from its baseline. Upstreams: those that wait for a tick, then those of which a part does not work, those with silent load balancers, then by the worst of their servers and how many there are, those under high load, and by the furthest weight. More servers or upstreams than fit a page begin with the worst."],
  ["Slow start", "A new server begins with a part of its weight and gets all of it within half a minute."],
  ["Pin", "A person fixed a server's part of the weight. The law decides about the rest."],
  ["Drain", "The server gets no new requests; those it has finish. Nothing is reloaded."],
  ["Generation", "Every new set of weights has a number; a load balancer never goes back to an older one."],
  ["Shadow", "Another law that sees the same and decides without effect, to compare."],
];

/** Write it. */
export function install() {
  const states = Object.values(STATES).map(({ label, text }) => [`State: ${label}`, text]);
  const rungs = Object.values(RUNGS).map(({ label, text }) => [`Load balancer: ${label}`, text]);
  $("what").append(...[...WORDS, ...states, ...rungs].flatMap(([word, said]) => [h("dt", {}, word), h("dd", {}, said)]));
}
