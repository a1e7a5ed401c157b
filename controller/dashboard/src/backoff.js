/** How long to wait before the next try. Pure. */

const FIRST_MS = 500;
const LONGEST_MS = 10_000;

/** Return the milliseconds before try `attempt` (from 1); `random` within 0..1 keeps a hundred pages apart. */
export function delayMs(attempt, random) {
  const longest = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt - 1, 10));
  return Math.round(longest * (0.5 + 0.5 * random));
}
