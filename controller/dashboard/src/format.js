/** Figures as a person reads them. Pure. Null and undefined are "not known", written as a dash. */

export const UNKNOWN = "–";

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** A number of things: 3 digits, no unit; 12345 is 12.3k. */
export function count(value) {
  if (!known(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size >= 1e6) return `${short(value / 1e6)}M`;
  if (size >= 1e4) return `${short(value / 1e3)}k`;
  return size >= 100 || Number.isInteger(value) ? value.toFixed(0) : short(value);
}

function short(value) {
  const size = Math.abs(value);
  return String(Number(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)));
}

/** A part of one as a percentage; a small one is not shown as 0. */
export function percent(part) {
  if (!known(part)) return UNKNOWN;
  const value = part * 100;
  if (value > 0 && value < 0.1) return value < 0.001 ? "<0.001 %" : `${Number(value.toPrecision(2))} %`;
  return `${value >= 9.95 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** Milliseconds, in a fitting unit. */
export function milliseconds(value) {
  if (!known(value)) return UNKNOWN;
  if (value >= 1000) return `${short(value / 1000)} s`;
  return `${value >= 10 ? value.toFixed(0) : value.toFixed(1)} ms`;
}

/** How long ago, or how long: 0.8 s, 12 s, 3 min, 2 h, 4 d. */
export function duration(seconds) {
  if (!known(seconds)) return UNKNOWN;
  if (seconds < 9.95) return `${Math.max(0, seconds).toFixed(1)} s`;
  if (seconds < 119.5) return `${seconds.toFixed(0)} s`;
  if (seconds < 7170) return `${(seconds / 60).toFixed(0)} min`;
  return seconds < 172_800 ? `${(seconds / 3600).toFixed(0)} h` : `${(seconds / 86_400).toFixed(0)} d`;
}

/** How long before now a moment was: "just now", "3 min ago"; after a day its date. */
export function since(atMs, nowMs) {
  const seconds = (nowMs - atMs) / 1000;
  if (seconds < 60) return "just now";
  return seconds < 86_400 ? `${duration(seconds)} ago` : new Date(atMs).toLocaleDateString();
}

/** A value against its value at rest: "+12 %", "−38 %", "as at rest". */
export function against(value, rest) {
  if (!known(value) || !known(rest) || rest <= 0) return UNKNOWN;
  const change = Math.round((value / rest - 1) * 100);
  if (change === 0) return "as at rest";
  return change > 0 ? `+${count(change)} %` : `−${-change} %`;
}

/** A factor: ×0.88. */
export function factor(value) {
  return known(value) ? `×${value.toFixed(Math.abs(value - 1) < 0.0005 ? 0 : value < 0.1 ? 3 : 2)}` : UNKNOWN;
}

/** The time of day of a moment, with seconds. */
export function clock(atMs) {
  return new Date(atMs).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

/** "1 server", "3 servers". */
export function many(number, one, more = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : more}`;
}
