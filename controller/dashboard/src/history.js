/**
 * The last 15 minutes of an upstream: moments in columns, oldest first. Pure.
 *
 * A moment is {atMs, alert, ids, rows: Map id -> row, weight, share, score, cpu, net, io, mem, completed,
 * latency_ms}: Float32Arrays, and one for each further indicator, `further.<name>`; NaN where nothing is known.
 * Many servers are kept in fewer moments, so that memory stays bounded; the newest moment is always there.
 */

import { indicatorsOf, isOfEveryAgent } from "./words.js";

export const SECONDS = 900;
export const COLUMNS = ["weight", "share", "score", "cpu", "net", "io", "mem", "completed", "latency_ms"];

// Servers times moments that are kept (20 MB), and that are asked for at once (8 MB of JSON).
const MOST_KEPT = 600_000;
const MOST_ASKED = 100_000;

/** Seconds between two moments of an upstream of so many servers: as kept, or as asked for. */
export function stepS(peers, most = MOST_KEPT) {
  return Math.max(1, Math.ceil((SECONDS * peers) / most));
}

/** The query for the history of so many servers. */
export function query(peers, seconds = SECONDS) {
  return `seconds=${Math.ceil(seconds)}&step_s=${stepS(peers, MOST_ASKED)}`;
}

export class UpstreamHistory {
  moments = [];

  /** The newest moment, or null. */
  get newest() {
    return this.moments.at(-1) ?? null;
  }

  /** Add what is newer than all else. */
  add(document) {
    const newest = this.newest;
    // The controller's clock was set back: what it called later is not comparable any more.
    while (this.moments.length > 0 && this.newest.atMs > document.at_ms) this.moments.pop();
    if (this.newest?.atMs === document.at_ms) this.moments.pop();
    const before = this.moments.at(-2);
    const step = stepS(document.ids.length);
    if (before && step > 1 && this.newest.atMs - before.atMs < step * 1000) this.moments.pop();
    this.moments.push(moment(document, newest));
    const oldest = document.at_ms - SECONDS * 1000;
    while (this.moments[0].atMs < oldest) this.moments.shift();
  }

  /** Add moments of a history, oldest first, among those that are here. */
  merge(documents) {
    const atMs = new Set(this.moments.map((each) => each.atMs));
    let like = this.newest;
    for (const document of documents) {
      if (!atMs.has(document.at_ms)) this.moments.push((like = moment(document, like)));
    }
    this.moments.sort((a, b) => a.atMs - b.atMs);
    const oldest = (this.newest?.atMs ?? 0) - SECONDS * 1000;
    this.moments = this.moments.filter((each) => each.atMs >= oldest);
  }
}

/** Return the moment that an overview is, as the history would have it. */
export function momentOf(overview) {
  const column = (name) => overview.peers.map((peer) => peer[name]);
  const used = (name) => overview.peers.map((peer) => peer.utilization?.[name] ?? null);
  return {
    at_ms: overview.issued_at_ms,
    alert: overview.alert,
    ids: column("id"),
    weight: column("weight"),
    share: column("share"),
    score: column("score"),
    cpu: used("cpu"),
    net: used("net"),
    io: used("io"),
    mem: used("mem"),
    further: Object.fromEntries(further(overview).map((name) => [name, used(name)])),
    completed: column("completed_per_tick"),
    latency_ms: column("latency_ms"),
  };
}

/** Return the indicators of an overview beside the four that every agent measures. */
export function further(overview) {
  return Object.keys(indicatorsOf(overview)).filter((name) => !isOfEveryAgent(name));
}

function moment(document, like) {
  const same = like !== null && like.ids.length === document.ids.length && like.ids.every((id, row) => id === document.ids[row]);
  const ids = same ? like.ids : document.ids;
  const rows = same ? like.rows : new Map(document.ids.map((id, row) => [id, row]));
  const made = { atMs: document.at_ms, alert: document.alert, ids, rows };
  const figures = (values) => Float32Array.from(values, (value) => value ?? NaN);
  for (const name of COLUMNS) made[name] = figures(document[name]);
  for (const [name, values] of Object.entries(document.further ?? {})) made[`further.${name}`] = figures(values);
  return made;
}
