/** The charts' data, from moments: columns of x and y. Pure. Null is a gap. */

/** Return x in seconds; after gapS without data, one more point inside the gap. */
export function times(moments, gapS) {
  const x = [];
  const at = [];
  moments.forEach((moment, index) => {
    const before = moments[index - 1];
    if (before && moment.atMs - before.atMs > Math.max(gapS * 1000, 3 * (before.stepMs ?? 0))) {
      x.push((before.atMs + 1) / 1000);
      at.push(null);
    }
    x.push(moment.atMs / 1000);
    at.push(moment);
  });
  return { x, at };
}

// Reports arrive about once a tick: now and then none in one tick, and two in the next.
const HELD = 3;

/** Return a column of each of `ids` over the moments; with `hold` a value stays for up to 3 moments without one. */
export function lines(at, ids, column, { scale = 1, hold = false } = {}) {
  return ids.map((id) => {
    const values = at.map((moment) => (moment === null ? null : valueIn(moment, id, column, scale)));
    return hold ? held(values, at) : values;
  });
}

/** Return the sum of a column over all servers, except the ids in `but`. */
export function together(at, column, { scale = 1, hold = false, but = [] } = {}) {
  const values = at.map((moment) => {
    const all = moment?.all?.[column] ?? null;
    return all === null ? null : Math.max(0, all * scale - but.reduce((sum, id) => sum + (valueIn(moment, id, column, scale) ?? 0), 0));
  });
  return hold ? held(values, at) : values;
}

/** Return each column on top of the previous ones. */
export function stacked(columns) {
  let below = null;
  return columns.map((column) => {
    below = column.map((value, index) => (value === null && below?.[index] == null ? null : (value ?? 0) + (below?.[index] ?? 0)));
    return below;
  });
}

/** Return the spans of time, in seconds, in which `test` holds for every moment. */
export function spans(at, test) {
  const lasting = [];
  let from = null;
  at.forEach((moment) => {
    if (moment !== null && test(moment)) {
      if (from === null) lasting.push((from = { fromS: moment.atMs / 1000, toS: moment.atMs / 1000 }));
      else from.toS = moment.atMs / 1000;
    } else {
      from = null;
    }
  });
  return lasting;
}

function held(values, at) {
  let last = null;
  let age = 0;
  return values.map((value, index) => {
    age = value === null ? age + 1 : 0;
    if (value !== null || at[index] === null || age > HELD) last = value;
    return last;
  });
}

function valueIn(moment, id, column, scale) {
  const row = moment.rows.get(id);
  if (row === undefined) return null;
  const value = moment[column]?.[row] ?? NaN; // a newer indicator has no column yet
  return Number.isNaN(value) ? null : value * scale;
}
