// How long a holder still has: a bar that runs down, and the time that is left.

import { clock, now } from "./time.js";
import { html, useComputed } from "./ui.js";
import { initials } from "./words.js";

const SHORT = 0.2; // of the lease, or
const SOON = 60_000; // a minute, whichever comes first, is near its end

export function Lease({ lease, bar = true }) {
  if (!lease.expires_at) return html`<span class="lease human" title="A person's hold has no end">no limit</span>`;
  const end = Date.parse(lease.expires_at);
  const whole = end - Date.parse(lease.claimed_at);
  const left = useComputed(() => end - now.value);
  const state = left.value <= 0 ? "over" : left.value < Math.min(SOON, whole * SHORT) ? "ending" : "";
  const share = Math.max(0, Math.min(1, left.value / whole));
  const words = { over: "lease ran out", ending: `${clock(left.value)} left`, "": clock(left.value) }[state];
  return html`<span class=${`lease ${state}`} title=${state === "over" ? "Up for claiming again" : "Until the lease ends, unless it is renewed"}>
    ${bar && html`<span class="bar" aria-hidden="true"><span style=${{ transform: `scaleX(${share})` }}></span></span>`}
    <span class="left">${words}</span>
  </span>`;
}

/** A holder by initials, for the eye; the name stands beside it. */
export function Holder({ name, human = false }) {
  return html`<span class="holder">
    <span class=${human ? "face human" : "face"} aria-hidden="true">${initials(name)}</span>
    <span class="name">${name}</span>
  </span>`;
}
