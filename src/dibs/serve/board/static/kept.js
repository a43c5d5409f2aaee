// Values that this browser stores: name, theme, chat. If the browser forbids storage, nothing is stored.

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
    // Private window or full disk: the value lasts as long as the page.
  }
}
