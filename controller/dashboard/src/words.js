/** The page's words: states, rungs, modes, and glossary. Pure. */

import { count, many, percent, UNKNOWN } from "./format.js";

/** The source of a load balancer's weights: the rungs of the ladder, from the best to the worst. */
export const RUNGS = {
  fresh: { tone: "good", label: "Fresh", text: "Follows the newest weight table." },
  hold: { tone: "warn", label: "Holding", text: "Hears nothing new: keeps the last weights it got." },
  drift: { tone: "warn", label: "Drifting", text: "Has heard nothing for long: its weights move back to the baselines." },
  saved: { tone: "warn", label: "Saved", text: "Started without a controller: uses the table it had saved on disk." },
  bootstrap: { tone: "bad", label: "Bootstrap", text: "Has never had a table: uses the list in its own configuration." },
  none: { tone: "bad", label: "No table", text: "Has no servers at all: requests get an error." },
};

/** Return tone, label and text for a load balancer as the overview has it. */
export function rungOf(balancer) {
  if (balancer === null) return { tone: "bad", label: "Silent", text: "Has sent no traffic report." };
  if (balancer.silent) return { tone: "warn", label: "Silent", text: "Has ceased to send traffic reports." };
  return RUNGS[balancer.rung] ?? { tone: "plain", label: "Reports", text: "Does not report which table it follows." };
}

/** The controller's faults that have a known effect, by the part in front of the colon. */
const FAULTS = [
  [/^state$/, "Redis is away.", "The weights go on. Until it is back, nothing can be changed, and the log of changes cannot be read."],
  [/^saving$/, "Redis is slow.", "The weights go on. A controller that takes over now may begin with an earlier state."],
  [/^terms$/, "Another control plane uses this Memcached.", "Both begin a new term again and again, and the weights learn nothing."],
  [/^memcached (.+)$/, "Memcached $1 is away.", "The load balancers ask the controller if they know it, or keep their last weights."],
];

/** Return {title, text, detail} for a line of the controller's faults; `detail` is for the person who mends it. */
export function faultOf(line) {
  const [, part, detail] = /^([^:]+(?::\d+)?): (.*)$/s.exec(line) ?? [null, line, ""];
  const known = FAULTS.find(([pattern]) => pattern.test(part));
  if (known === undefined) return { title: "The controller has a fault.", text: "", detail: line };
  return { title: part.replace(known[0], known[1]), text: known[2], detail };
}

/** How much an upstream needs a person, from the controller. */
export const LEVELS = {
  fault: { tone: "bad", label: "Fault", text: "A part of it does not work, or requests fail." },
  warning: { tone: "warn", label: "Warning", text: "Figures are missing, or little headroom is left." },
  notice: { tone: "plain", label: "Notice", text: "Servers are out or pinned, or it is under high load." },
  well: { tone: "good", label: "Well", text: "Nothing needs a person." },
};

export const STATES = {
  up: { tone: "good", label: "up", text: "Gets requests." },
  drain: { tone: "warn", label: "draining", text: "Gets no new requests; those in flight finish." },
  down: { tone: "bad", label: "down", text: "Taken out of service by a person." },
  backup: { tone: "plain", label: "backup", text: "Gets requests only while no other server is up." },
};

/** The states that come from Kubernetes, by the state and its report on the pod. */
const BY_POD = {
  "down unready": { tone: "bad", label: "not ready", text: "Its pod is not ready." },
  "drain terminating": { tone: "warn", label: "terminating", text: "Its pod is terminating: no new requests; those in flight finish." },
};

/** Return whether a server is out of service because of its pod, and not because of a person. */
export function isByPod(peer) {
  return Object.hasOwn(BY_POD, `${peer.state} ${peer.pod}`);
}

/** Return the words for a server's state; for an unknown one the state itself. */
export function stateOf(peer) {
  if (isByPod(peer)) return BY_POD[`${peer.state} ${peer.pod}`];
  return STATES[peer.state] ?? { tone: "plain", label: peer.state, text: "" };
}

/** The indicators of every agent; a server's further ones have their own names. */
export const INDICATORS = { cpu: "CPU", net: "network", io: "disk", mem: "memory" };

/** Return whether an indicator is one of those; not `in`, which finds `constructor` too. */
export function isOfEveryAgent(name) {
  return Object.hasOwn(INDICATORS, name);
}

/** Return the words for an indicator. */
export function indicatorOf(name) {
  return isOfEveryAgent(name) ? INDICATORS[name] : name.replaceAll("_", " ");
}

/** Return the largest utilization of a server among the counting indicators, null if there is none. */
export function busiest(peer, indicators = {}) {
  const counting = Object.entries(peer.utilization ?? {}).filter(([name, value]) => value !== null && (indicators[name]?.used ?? true));
  return counting.length > 0 ? Math.max(...counting.map(([, value]) => value)) : null;
}

/** Return a remark on an indicator beside its figure; empty if there is none. */
export function remarkOf({ used, knee, reporting }) {
  if (!used) return "not declared: moves nothing";
  if (reporting === 0) return "no server reports it: moves nothing";
  return knee > 0 ? `counts as load above ${Math.round(knee * 100)} %` : "";
}

/** Return a sentence on the law's mode, from alert and thresholds. */
export function modeOf(overview) {
  if (overview.thresholds === null) return { tone: "plain", label: "No thresholds", note: "", text: "This law has no high-load mode." };
  const { H } = overview.thresholds;
  return overview.alert
    ? { tone: "warn", label: "High load", note: `score ≤ ${H}`, text: `The score of a server fell to H = ${H} or below: the law reacts faster.` }
    : { tone: "good", label: "Calm", note: `scores > ${H}`, text: `Every score is above H = ${H}.` };
}

/** The last tenth, as for the alert. */
const LITTLE = 0.1;

/** Return the words for an upstream's headroom. */
export function headroomOf({ headroom }) {
  if (headroom.left_per_s === null) return { tone: "", label: UNKNOWN, text: `Not known: ${headroom.unknown}.` };
  const { ratio, left_per_s: left, carries_per_s: carries, could_carry_per_s: could, servers } = headroom;
  return {
    tone: left < 0 ? "bad" : ratio < LITTLE ? "warn" : "",
    label: left < 0 ? `lacks ${count(-left)}/s` : percent(ratio),
    text: `Carries ${count(carries)} of the ${count(could)} requests/s that ${many(servers, "server")} could carry without high load.`,
  };
}

/** Return the words for this controller's role: leader, standby or waiting. */
export function roleOf(service) {
  if (service === null) return { tone: "plain", label: "…", text: "" };
  const leader = service.leader?.id ?? "another controller";
  const id = service.installation ? `${service.installation}: ${service.id}` : service.id;
  return {
    leader: { tone: "good", label: `${id} leads`, text: `This controller decides the weights, in term ${service.term}.` },
    standby: { tone: "plain", label: `${id} stands by`, text: `${leader} decides the weights; this controller takes over when it fails.` },
    waiting: { tone: "warn", label: `${id} waits`, text: "No controller leads now: the load balancers keep their last weights." },
  }[service.role] ?? { tone: "plain", label: service.role, text: "" };
}
