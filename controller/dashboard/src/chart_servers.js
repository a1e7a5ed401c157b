/** The drawn servers and their colours. Pure. */

// More lines cannot be distinguished; the rest is drawn as one.
export const MOST = 12;

/** Return the ids of the first MOST servers of the table; ids in `before` stay while the table has them. */
export function drawnServers(peers, before = []) {
  const ids = peers.map((peer) => peer.id);
  if (ids.length <= MOST) return ids;
  const there = new Set(ids);
  return [...new Set([...before.filter((id) => there.has(id)), ...ids])].slice(0, MOST);
}

/** Return id -> slot (0..MOST-1); each id keeps its slot in `before`. */
export function slots(ids, before = new Map()) {
  const taken = new Map(ids.filter((id) => before.has(id)).map((id) => [id, before.get(id)]));
  const used = new Set(taken.values());
  let next = 0;
  for (const id of ids) {
    if (taken.has(id)) continue;
    while (used.has(next)) next += 1;
    used.add(next);
    taken.set(id, next);
  }
  return taken;
}
