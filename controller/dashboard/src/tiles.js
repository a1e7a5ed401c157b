/** Tiles: a figure with its name above it, and a line below it that says what it is out of. */

import { h } from "./dom.js";
import { LEVELS } from "./words.js";

/** Return a tile; `tone` colours the figure, `title` explains it, `live` has screen readers say its changes. */
export function tile(label, value, { tone = "", note = "", title = "", live = false } = {}, ...more) {
  return h(
    "div",
    { class: `tile ${tone}`, title, attr: { role: live ? "status" : null } },
    h("span", { class: "muted" }, label),
    h("b", {}, value),
    ...more,
    h("small", {}, note || "\u00a0"),
  );
}

/** Return the tile of a headroom, with a bar of what is used; `ratio` null is "not known". */
export function headroomTile(label, value, ratio, note, { tone, title = "" } = {}) {
  const level = h("i", { class: "fill" });
  level.style.width = `${ratio === null ? 0 : (1 - ratio) * 100}%`;
  const track = h("span", { class: `track ${ratio === null ? "unknown" : ""}`, attr: { "aria-hidden": "true" } }, level);
  return tile(label, value, { tone: tone ?? (ratio !== null && ratio < 0.1 ? "warn" : ""), note, title }, track);
}

/** Return the words for how much an upstream needs a person. */
export function level({ level: its, ready = true }) {
  if (!ready) return { tone: "warn", label: "No tick yet", text: "It waits for its first tick." };
  return LEVELS[its] ?? { tone: "plain", label: its, text: "" };
}
