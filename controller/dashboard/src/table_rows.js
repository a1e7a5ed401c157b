/** Which servers the table shows, and in which order. Pure. */

import { troubles } from "./words.js";

export const FIRST = 50;

const KEYS = {
  server: (peer) => peer.id,
  share: (peer) => peer.share,
  weight: (peer) => peer.weight / peer.baseline,
  busy: busiest,
  requests: (peer) => peer.completed_per_tick,
  failed: (peer) => peer.failed_per_tick,
  latency: (peer) => peer.latency_ms,
  flight: (peer) => peer.in_flight,
  age: (peer) => peer.sample_age_s,
};

/** Return the largest utilization of a server among the indicators that count, null where there is none. */
export function busiest(peer, indicators = {}) {
  const counting = Object.entries(peer.utilization ?? {}).filter(([name]) => indicators[name]?.used ?? true);
  const known = counting.map(([, value]) => value).filter((value) => value !== null);
  return known.length > 0 ? Math.max(...known) : null;
}

/**
 * Return {shown, matching}: the first `limit` servers that match, and how many do.
 *
 * `sort` is {by, down} or null for the upstream's order; null values come last either way.
 */
export function visible(peers, { text = "", attention = false, sort = null, limit = FIRST, indicators = {} } = {}) {
  const wanted = text.trim().toLowerCase();
  let matching = peers;
  if (wanted) {
    matching = matching.filter((peer) => peer.id.toLowerCase().includes(wanted) || peer.address.includes(wanted) || peer.state === wanted);
  }
  if (attention) matching = matching.filter((peer) => troubles(peer).length > 0);
  if (sort !== null) matching = [...matching].sort(comparison((peer) => KEYS[sort.by](peer, indicators), sort.down));
  return { shown: matching.slice(0, limit), matching: matching.length };
}

function comparison(key, down) {
  return (one, other) => {
    const a = key(one);
    const b = key(other);
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    const order = typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
    return down ? -order : order;
  };
}
