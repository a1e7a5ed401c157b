/**
 * Weights on one scale. Pure.
 *
 * A table's weights are divided by their greatest common divisor, which is another at every tick: 226 of
 * 1000 is published as 113 of 500. Here they are what the reasons and the law speak of: parts of S.
 */

/** S, the sum of the weights of so many servers. */
const total = (servers) => Math.max(1000, 20 * servers);

/** Return the factor that brings published weights to the scale S. */
export function factorOf(weights) {
  const sum = weights.reduce((a, b) => a + b, 0);
  return sum > 0 ? total(weights.length) / sum : 1;
}

/** Return an overview whose weights and baselines are on the scale S. */
export function scaled(overview) {
  const factor = factorOf(overview.peers.map((peer) => peer.weight));
  const peers = overview.peers.map((peer) => ({ ...peer, weight: peer.weight * factor, baseline: peer.baseline * factor }));
  return { ...overview, peers };
}
