/** Which servers are drawn, and in which colour. Pure. */

// More lines than this nobody tells apart; the rest is drawn as one.
export const MOST = 12;

/**
 * Return the ids that are drawn, in the order of the upstream; `before` stays as long as it is right.
 *
 * With up to MOST servers it is all of them; with more, those of the largest shares. One that is drawn
 * stays drawn until another has twice its share, so that colours do not change from tick to tick.
 */
export function drawnServers(peers, before = []) {
  if (peers.length <= MOST) return peers.map((peer) => peer.id);
  const share = new Map(peers.map((peer) => [peer.id, peer.share]));
  const kept = before.filter((id) => share.has(id));
  const largest = [...peers].sort((a, b) => b.share - a.share).slice(0, 2 * MOST);
  for (const peer of largest) {
    if (kept.length >= MOST) break;
    if (!kept.includes(peer.id)) kept.push(peer.id);
  }
  for (const peer of largest) {
    if (kept.includes(peer.id)) continue;
    const least = kept.reduce((a, b) => (share.get(b) < share.get(a) ? b : a));
    if (peer.share > 2 * share.get(least)) kept[kept.indexOf(least)] = peer.id;
  }
  return kept;
}

/** Return id -> slot (0..MOST-1), each id keeping the slot that it had in `before`. */
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
