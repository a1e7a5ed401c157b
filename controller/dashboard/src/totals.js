/** An upstream in a few figures. Pure. */

/** Return servers, up, requests/s, failures/s, mean latency and the largest move away from the baseline. */
export function totals(overview, tickS) {
  const { peers } = overview;
  let requests = 0;
  let failed = 0;
  let waited = 0;
  let flight = 0;
  let moved = null;
  for (const peer of peers) {
    const completed = peer.completed_per_tick ?? 0;
    requests += completed;
    failed += peer.failed_per_tick ?? 0;
    flight += peer.in_flight ?? 0;
    waited += completed * (peer.latency_ms ?? 0);
    const change = Math.abs(Math.log(peer.weight / peer.baseline));
    if (peer.state === "up" && (moved === null || change > moved.change)) moved = { peer, change };
  }
  return {
    servers: peers.length,
    up: peers.filter((peer) => peer.state === "up").length,
    requestsPerS: requests / tickS,
    failedPerS: failed / tickS,
    inFlight: flight,
    latencyMs: requests > 0 ? waited / requests : null,
    moved: moved?.peer ?? null,
  };
}
