/** The words of the page, explained for readers who have not read the manual. */

import { $, h } from "./dom.js";
import { RUNGS, STATES } from "./words.js";

const WORDS = [
  ["Share", "The intended part of all requests for a server. Shares of all servers that are up make 100 %."],
  ["Weight, baseline", "A server's share comes from its weight. The baseline is its weight at rest, from its configuration; the controller moves the weight up or down from there, once a second."],
  ["Busy", "The used part of a server's CPU, network, disk and memory, and of its application's own resources, such as a pool of workers. The agent beside it measures them. A dash is “not measured”, never a guess."],
  ["Score, H and L", "A server's free capacity over all counting indicators: 1 is idle, 0 is full. At or below H it is under high load; at or above L it has room to take load from such a server."],
  ["High load, calm", "While any server is under high load, the controller follows changes faster. “High load” is information, not an error."],
  ["Headroom", "The free part of the requests/s that the servers could carry without high load, beside other load on them: the figure for starting and stopping servers. It counts servers that get requests, are measured and do not leave."],
  ["Zones", "Requests go to servers of the load balancer's zone until the headroom of those is used; the rest crosses to other zones. A server's share is by its weight alone."],
  ["Fault, warning, notice", "How much an upstream needs you. A fault: it waits for its first tick, a part of it does not work, at least one request in a hundred fails, or no server gets requests. A warning: agents or load balancers are silent, a server has no sample, a request fails, or less than a tenth of the headroom is left. A notice: servers are out, stopping or pinned, or it is under high load."],
  ["Worst first", "Servers with failing requests come first, then servers with silent agents and those without a sample. Servers that are down, stopping, draining or pinned follow, then those with the largest move from their baseline. Upstreams with a fault come first, then those with a warning and those with a notice. Among equals it goes by silent load balancers, by their worst servers and the number of these, by headroom, by high load, and by the largest move. If not all fit a page, the first page has the worst."],
  ["Slow start", "A new server begins with a part of its weight and gets all of it within half a minute."],
  ["Pin", "A person fixed a server's part of the weight. The law decides about the rest."],
  ["Drain", "The server gets no new requests; those it has finish. Nothing is reloaded."],
  ["Generation", "Every new set of weights has a number; a load balancer never goes back to an older one."],
  ["Shadow", "Another law that decides on the same data without effect, for comparison."],
];

/** Write it. */
export function install() {
  const states = Object.values(STATES).map(({ label, text }) => [`State: ${label}`, text]);
  const rungs = Object.values(RUNGS).map(({ label, text }) => [`Load balancer: ${label}`, text]);
  $("what").append(...[...WORDS, ...states, ...rungs].flatMap(([word, meaning]) => [h("dt", {}, word), h("dd", {}, meaning)]));
}
