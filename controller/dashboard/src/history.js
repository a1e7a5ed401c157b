/**
 * The last 15 minutes of an upstream: moments in columns, oldest first. Pure.
 *
 * A moment is {atMs, alert, ids, rows: Map id -> row, weight, share, score, cpu, net, io, mem, completed,
 * latency_ms}: Float32Arrays, and one for each further indicator, `further.<name>`; NaN for unknown values.
 * The rows are the servers in the table; `all` has each column's figure for all servers together.
 */

import { isOfEveryAgent } from "./words.js";

export const SECONDS = 900;
export const COLUMNS = ["weight", "share", "score", "cpu", "net", "io", "mem", "completed", "latency_ms"];

/** The query for the history of these servers. */
export function query(ids, seconds = SECONDS) {
  return new URLSearchParams([["seconds", Math.ceil(seconds)], ...ids.map((id) => ["peer", id])]);
}

export class UpstreamHistory {
  moments = [];

  /** The newest moment, or null. */
  get newest() {
    return this.moments.at(-1) ?? null;
  }

  /** Add a moment newer than all others. */
  add(document) {
    const newest = this.newest;
    // The controller's clock was set back: its later times are not comparable any more.
    while (this.moments.length > 0 && this.newest.atMs > document.at_ms) this.moments.pop();
    if (this.newest?.atMs === document.at_ms) this.moments.pop();
    this.moments.push(moment(document, newest));
    const oldest = document.at_ms - SECONDS * 1000;
    while (this.moments[0].atMs < oldest) this.moments.shift();
  }

  /** Add moments of a history, oldest first, among the present ones. */
  merge(documents) {
    const atMs = new Set(this.moments.map((each) => each.atMs));
    let like = this.newest;
    // With thousands of servers the controller keeps fewer moments: the time between two of them is no gap.
    const stepMs = documents.length > 1 ? (documents.at(-1).at_ms - documents[0].at_ms) / (documents.length - 1) : 0;
    for (const document of documents) {
      if (!atMs.has(document.at_ms)) this.moments.push((like = { ...moment(document, like), stepMs }));
    }
    this.moments.sort((a, b) => a.atMs - b.atMs);
    const oldest = (this.newest?.atMs ?? 0) - SECONDS * 1000;
    this.moments = this.moments.filter((each) => each.atMs >= oldest);
  }
}

/** Return an overview as a moment of the history. */
export function momentOf(overview) {
  const column = (name) => overview.peers.map((peer) => peer[name]);
  const used = (name) => overview.peers.map((peer) => peer.utilization?.[name] ?? null);
  const { utilization, completed_per_tick: completed, ...totals } = overview.totals;
  const busy = Object.entries(utilization).map(([name, value]) => [isOfEveryAgent(name) ? name : `further.${name}`, value]);
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
    all: { ...totals, ...Object.fromEntries(busy), completed },
  };
}

/** Return the indicators of an overview beside the four of every agent. */
export function further(overview) {
  return Object.keys(overview.indicators).filter((name) => !isOfEveryAgent(name));
}

function moment(document, like) {
  const same = like !== null && like.ids.length === document.ids.length && like.ids.every((id, row) => id === document.ids[row]);
  const ids = same ? like.ids : document.ids;
  const rows = same ? like.rows : new Map(document.ids.map((id, row) => [id, row]));
  const made = { atMs: document.at_ms, alert: document.alert, ids, rows, all: document.all };
  const figures = (values) => Float32Array.from(values, (value) => value ?? NaN);
  for (const name of COLUMNS) made[name] = figures(document[name]);
  for (const [name, values] of Object.entries(document.further ?? {})) made[`further.${name}`] = figures(values);
  return made;
}
