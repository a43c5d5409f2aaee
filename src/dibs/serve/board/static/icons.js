// Icons: one per status, distinguished by shape as well as colour.

import { html } from "./ui.js";
import { STATUS } from "./words.js";

const ring = html`<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.6" />`;
const line = (d) => html`<path d=${d} fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round" />`;
const full = html`<circle cx="8" cy="8" r="6.8" fill="currentColor" />`;
const knocked = (d) => html`<path d=${d} class="knock" fill="none" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" />`;

const SIGNS = {
  backlog: html`<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.6" stroke-dasharray="2 2.4" />`,
  ready: ring,
  waiting: html`${ring}${line("M5.2 8h.01M8 8h.01M10.8 8h.01")}`,
  later: html`${ring}${line("M8 5v3.2l2 1.3")}`,
  active: html`${ring}<path d="M8 4.2a3.8 3.8 0 0 1 0 7.6z" fill="currentColor" />`,
  expired: html`${ring}${line("M8 4.8v3.6M8 11h.01")}`,
  review: html`${ring}<circle cx="8" cy="8" r="2.6" fill="currentColor" />`,
  blocked: html`${full}${knocked("M5 8h6")}`,
  escalated: html`<path d="M8 1.8 14.6 13.6H1.4z" fill="currentColor" stroke="currentColor" stroke-width="1.2" stroke-linejoin="round" />${knocked("M8 6v3.4M8 11.7h.01")}`,
  paused: html`${ring}${line("M6.6 6v4M9.4 6v4")}`,
  done: html`${full}${knocked("m5.2 8.2 2 2 3.7-4")}`,
  canceled: html`${ring}${line("m6 6 4 4m0-4-4 4")}`,
};

/** The icon of a status. Next to the word it is decorative; alone it has a name. */
export function Sign({ word, alone = false }) {
  const name = alone ? { role: "img", "aria-label": STATUS[word] } : { "aria-hidden": "true" };
  return html`<svg class=${`sign ${word}`} viewBox="0 0 16 16" width="16" height="16" ...${name}>${SIGNS[word]}</svg>`;
}

const ICONS = {
  search: line("M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9ZM13.5 13.5 10.3 10.3"),
  plus: line("M8 3v10M3 8h10"),
  sun: html`${line("M8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7")}<circle cx="8" cy="8" r="2.8" fill="none" stroke="currentColor" stroke-width="1.6" />`,
  moon: line("M13.3 9.6A5.6 5.6 0 0 1 6.4 2.7a5.6 5.6 0 1 0 6.9 6.9Z"),
  close: line("m4 4 8 8m0-8-8 8"),
  person: html`${line("M3 13.5c.6-2.6 2.5-4 5-4s4.4 1.4 5 4")}<circle cx="8" cy="5.2" r="2.7" fill="none" stroke="currentColor" stroke-width="1.6" />`,
  link: line("M6.5 9.5 9.5 6.5M7 4.7l1-1a3 3 0 0 1 4.3 4.3l-1 1M9 11.3l-1 1A3 3 0 0 1 3.7 8l1-1"),
  more: line("M3.5 8h.01M8 8h.01M12.5 8h.01"),
  fit: line("M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10"),
  first: line("M3 2.8h10M8 13.2V6M5 8.8 8 5.8l3 3"),
  speech: line("M2.5 3.5h11v7.5H8l-3 2.5V11H2.5z"),
  command: line("M5.5 5.5h5v5h-5zM5.5 5.5H4A1.75 1.75 0 1 1 5.5 4zM10.5 5.5H12A1.75 1.75 0 1 0 10.5 4zM5.5 10.5H4A1.75 1.75 0 1 0 5.5 12zM10.5 10.5H12a1.75 1.75 0 1 1-1.5 1.5z"),
  keys: line("M2 4.5h12v7H2zM4.5 7h.01M7 7h.01M9.5 7h.01M12 7h.01M5.5 9.3h5"),
};

export const Icon = ({ name }) =>
  html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">${ICONS[name]}</svg>`;
