// Light, dark, or the theme of the system.

import { kept } from "./kept.js";
import { computed, effect, html, signal } from "./ui.js";
import { Icon } from "./icons.js";

const chosen = kept("theme", "");
const system = window.matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(system.matches);
system.addEventListener("change", () => {
  systemDark.value = system.matches;
});

export const dark = computed(() => (chosen.value ? chosen.value === "dark" : systemDark.value));
effect(() => {
  document.documentElement.dataset.theme = dark.value ? "dark" : "light";
});

export function switchTheme() {
  chosen.value = dark.value ? "light" : "dark";
}

export function ThemeSwitch() {
  const label = dark.value ? "Switch to light" : "Switch to dark";
  return html`<button class="icon-only" aria-label=${label} title=${`${label} (t)`} onClick=${switchTheme}>
    <${Icon} name=${dark.value ? "sun" : "moon"} />
  </button>`;
}
