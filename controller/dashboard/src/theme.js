/** Light or dark: as the system has it, until somebody presses the button. */

const KEPT = "steelyard-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

/** Make `button` switch the theme; `changed` is called with the first theme, and whenever it is another. */
export function install(button, changed) {
  const kept = localStorage.getItem(KEPT);
  if (kept) document.documentElement.dataset.theme = kept;
  const show = () => {
    button.textContent = isDark() ? "☀" : "☾";
    button.title = isDark() ? "Show it light" : "Show it dark";
    button.setAttribute("aria-label", button.title);
    changed();
  };
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem(KEPT, next);
    show();
  });
  system.addEventListener("change", show);
  show();
}

/** Return the value of a colour of colours.css. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
