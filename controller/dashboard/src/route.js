/** What the address shows: #/ all upstreams, #/web one, #/web/server-1 one of its servers. Pure. */

/** Return {upstream, peer}, each null where the address names none. */
export function parse(hash) {
  const [upstream, peer] = hash.replace(/^#?\/?/, "").split("/").map(decoded);
  return { upstream: upstream || null, peer: peer || null };
}

/** Return the address of an upstream, or of one of its servers. */
export function link(upstream, peer = null) {
  const parts = [upstream, peer].filter((part) => part !== null).map(encodeURIComponent);
  return `#/${parts.join("/")}`;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
