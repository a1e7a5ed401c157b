/**
 * The address: #/ all upstreams, #/web one, #/web/server-1 one of its servers. Behind a ? is the part of
 * them: ?search=10.0.0&order=-latency&troubled&page=2. Pure.
 */

/** Return {upstream, peer, search, order, troubled, page}; upstream and peer are null if not in the address. */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#?\/?/, "").split("?");
  const [upstream, peer] = path.split("/").map(decoded);
  const given = new URLSearchParams(query);
  const page = Math.max(1, Math.floor(Number(given.get("page"))) || 1);
  const shown = { search: given.get("search") ?? "", order: given.get("order") ?? "", troubled: given.has("troubled"), page };
  return { upstream: upstream || null, peer: peer || null, ...shown };
}

/** Return the address of all upstreams, of one, or of one of its servers, with the part in view. */
export function link(upstream, peer = null, { search, order, troubled, page } = {}) {
  const parts = [upstream, peer].filter((part) => part !== null).map(encodeURIComponent);
  const wanted = { search, order, troubled: troubled ? "1" : "", page: page > 1 ? page : "" };
  const query = String(new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)));
  return `#/${parts.join("/")}${query && `?${query}`}`;
}

/** Return the API query for the same part, `limit` a page. */
export function query({ search, order, troubled, page }, limit) {
  return String(new URLSearchParams({ search, order: order || "auto", troubled, offset: (page - 1) * limit, limit }));
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
