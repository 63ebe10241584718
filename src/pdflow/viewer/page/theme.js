/** Set light or dark ("" follows the system) and return the colours that drawing needs. */
export function applyTheme(choice) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = choice || (dark ? "dark" : "light");
  const style = getComputedStyle(document.documentElement);
  const color = (name) => {
    const number = parseInt(style.getPropertyValue(name).trim().slice(1), 16);
    return [16, 8, 0].map((shift) => ((number >> shift) & 255) / 255);
  };
  return { background: color("--ground"), plain: color("--points"), missing: color("--missing") };
}

export function onSystemTheme(changed) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
