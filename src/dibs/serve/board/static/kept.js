// What this browser remembers for its user: a name, a theme, what was said. A browser may forbid it; then nothing is kept.

import { signal } from "./ui.js";

export function kept(name, fallback, place = "localStorage") {
  const key = `dibs.${name}`;
  const value = signal(read(key, fallback, place));
  value.subscribe((now) => write(key, now, place));
  return value;
}

function read(key, fallback, place) {
  try {
    const found = window[place].getItem(key);
    return found === null ? fallback : JSON.parse(found);
  } catch {
    return fallback;
  }
}

function write(key, value, place) {
  try {
    window[place].setItem(key, JSON.stringify(value));
  } catch {
    // Private windows and full disks: the value lives as long as the page does.
  }
}
