// Times by the store's clock, which decides about leases, and their formats.

import { computed, signal } from "./ui.js";

const skew = signal(0);
const ticking = signal(Date.now());
setInterval(() => {
  ticking.value = Date.now();
}, 1000);

/** Now by the store's clock, in milliseconds; a new value every second. */
export const now = computed(() => ticking.value + skew.value);

/** The same with a new value every ten seconds, for expensive views. */
export const lately = computed(() => Math.floor(now.value / 10_000) * 10_000);

export function setClock(text) {
  if (text) skew.value = Date.parse(text) - Date.now();
}

/** A remaining time as 4:05 or 1:02:03. */
export function clock(milliseconds) {
  const all = Math.max(0, Math.ceil(milliseconds / 1000));
  const [hours, minutes, seconds] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
}

const UNITS = [["d", 86_400], ["h", 3600], ["m", 60], ["s", 1]];

/** A span in one unit: 3h, 12m. */
export function span(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  const [unit, size] = UNITS.find(([, length]) => seconds >= length) ?? UNITS.at(-1);
  return `${Math.floor(seconds / size)}${unit}`;
}

export function ago(text, at = lately.value) {
  const passed = at - Date.parse(text);
  return passed < 10_000 ? "just now" : `${span(passed)} ago`;
}

const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
export const exactly = (text) => FULL.format(new Date(text));
