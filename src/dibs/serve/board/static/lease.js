// The remaining lease time: a bar and a countdown.

import { kept } from "./kept.js";
import { clock, now } from "./time.js";
import { classes, html, useComputed } from "./ui.js";
import { initials } from "./words.js";

const SHORT = 0.2; // of the lease, or:
const SOON = 60_000; // milliseconds; whichever is shorter counts as near the end

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

const HUES = 12;
const REMEMBERED = 200; // names
const faces = kept("faces", {});

/** A colour for a name, by hash or the next free one; this browser remembers it. */
function hueOf(name) {
  const known = faces.peek();
  if (Object.hasOwn(known, name)) return known[name];
  let hue = [...name].reduce((sum, each) => (sum * 31 + each.codePointAt(0)) % 9973, 7) % HUES;
  const latest = new Set(Object.values(known).slice(1 - HUES));
  while (latest.has(hue) && latest.size < HUES) hue = (hue + 5) % HUES;
  faces.value = Object.fromEntries([...Object.entries(known).slice(1 - REMEMBERED), [name, hue]]);
  return hue;
}

/** An avatar with initials: square for agents, round for people. */
export const Face = ({ name, human = false }) =>
  html`<span class=${classes("face", human && "human", `hue-${hueOf(name)}`)} aria-hidden="true">${initials(name)}</span>`;

/** A holder: avatar and name. */
export function Holder({ name, human = false }) {
  return html`<span class="holder">
    <${Face} name=${name} human=${human} />
    <span class="name">${name}</span>
  </span>`;
}
