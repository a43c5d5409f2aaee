// Attempts over time: a lane for each agent, a bar for each attempt, with how it ended.

import { Face } from "./lease.js";
import { adjust, linkTo, route } from "./route.js";
import { get } from "./server.js";
import { tasks, version } from "./store.js";
import { clock, exactly, lately } from "./time.js";
import { html, useEffect, useRef, useSignal } from "./ui.js";
import { plural } from "./words.js";

export const SPANS = { "15m": ["15 min", 900], "1h": ["1 hour", 3600], "6h": ["6 hours", 21_600], "1d": ["1 day", 86_400], "7d": ["1 week", 604_800] };
const TICKS = 6;
const LEAST_SPAN = 60_000; // milliseconds; the shortest span of the axis
const LEAST = 0.004; // of the width; the least width of a bar

/** Data that is read again after events, with a pause between reads. */
export function useAnswer(path, query, rest = 1500) {
  const found = useSignal(null);
  const trouble = useSignal("");
  const asked = JSON.stringify(query);
  const moment = version.value;
  useEffect(() => {
    const read = () => get(path, query).then(
      (answer) => { found.value = { asked, ...answer }; trouble.value = ""; },
      (error) => { trouble.value = error.message; },
    );
    const timer = setTimeout(read, found.peek()?.asked === asked ? rest : 0);
    return () => clearTimeout(timer);
  }, [moment, asked]);
  return { found: found.value?.asked === asked ? found.value : null, trouble: trouble.value };
}

export const SpanChoice = ({ spans, value }) => html`<div class="spans" role="group" aria-label="Time">
  ${spans.map((span) => html`<button key=${span} aria-pressed=${span === value} onClick=${() => adjust({ since: span })}>${SPANS[span][0]}</button>`)}
</div>`;

export function Timeline() {
  const span = SPANS[route.value.since] ? route.value.since : "1h";
  const { found, trouble } = useAnswer("/attempts", { since: span });
  return html`<main class="timeline" aria-busy=${found || trouble ? undefined : "true"}>
    <header><h1>Timeline</h1><p class="muted">${found ? plural(found.attempts.length, "attempt") : ""}</p><${SpanChoice} spans=${Object.keys(SPANS)} value=${span} /></header>
    ${trouble && html`<p class="trouble">${trouble}</p>`}
    ${found && (found.attempts.length ? html`<${Lanes} found=${found} seconds=${SPANS[span][1]} />` : html`<p class="nothing">No attempt in this time.</p>`)}
  </main>`;
}

function Lanes({ found, seconds }) {
  const end = Math.max(Date.parse(found.now), lately.value);
  const begin = Math.min(end - LEAST_SPAN, Math.max(end - seconds * 1000, Date.parse(found.since)));
  const lanes = new Map();
  for (const attempt of found.attempts) lanes.set(attempt.agent, [...(lanes.get(attempt.agent) ?? []), attempt]);
  const names = [...lanes.keys()].sort((a, b) => a.localeCompare(b));
  const box = useRef();
  useEffect(() => { box.current.scrollLeft = box.current.scrollWidth; }, []);
  return html`<div class="lanes" ref=${box} tabindex="0" role="region" aria-label="Attempts by agent">
    <div class="scale" aria-hidden="true">${Array.from({ length: TICKS + 1 }, (_, tick) => html`<span style=${{ left: `${(100 * tick) / TICKS}%` }}>${tickName(begin + ((end - begin) * tick) / TICKS, (end - begin) / 1000)}</span>`)}</div>
    <ul>${names.map((name) => html`<${Lane} key=${name} name=${name} rows=${stacked(lanes.get(name), begin, end)} begin=${begin} end=${end} />`)}</ul>
    <p class="legend muted">${Object.entries(OUTCOMES).map(([key, words]) => html`<span key=${key}><i class=${key.replace(" ", "-")} aria-hidden="true"></i>${words}</span>`)}</p>
  </div>`;
}

const tickName = (at, seconds) =>
  new Intl.DateTimeFormat(undefined, seconds > 86_400 ? { weekday: "short", hour: "2-digit", minute: "2-digit" } : { hour: "2-digit", minute: "2-digit", second: seconds <= 900 ? "2-digit" : undefined }).format(at);

const OUTCOMES = { running: "at work", done: "done", review: "in review", failed: "failed", expired: "lease expired", "taken over": "taken over", blocked: "blocked", released: "released", paused: "paused", canceled: "canceled" };

/** Put overlapping attempts on separate rows. */
function stacked(attempts, begin, end) {
  const rows = [];
  for (const attempt of attempts) {
    const from = Date.parse(attempt.claimed_at);
    const until = attempt.ended_at ? Date.parse(attempt.ended_at) : end;
    const row = rows.find((each) => each.until <= from) ?? rows[rows.push({ bars: [] }) - 1];
    row.until = until;
    row.bars.push({ attempt, from: Math.max(from, begin), until, took: until - from });
  }
  return rows;
}

function Lane({ name, rows, begin, end }) {
  return html`<li class="lane">
    <span class="holder"><${Face} name=${name} /><span class="name">${name}</span></span>
    <div class="bars">${rows.map((row, index) => html`<div class="bar-row" key=${index}>${row.bars.map((bar) => html`<${Bar} key=${`${bar.attempt.task} ${bar.attempt.attempt}`} bar=${bar} begin=${begin} end=${end} />`)}</div>`)}</div>
  </li>`;
}

function Bar({ bar: { attempt, from, until, took }, begin, end }) {
  const title = tasks.value.get(attempt.task)?.title ?? attempt.task;
  const again = attempt.attempt > 1 ? `, attempt ${attempt.attempt}` : "";
  const words = `${title}${again}: ${OUTCOMES[attempt.outcome]}, ${clock(took)}`;
  const whole = end - begin;
  const style = { left: `${(100 * (from - begin)) / whole}%`, width: `${100 * Math.max(LEAST, (until - from) / whole)}%` };
  return html`<a class=${`attempt ${attempt.outcome.replace(" ", "-")}`} href=${linkTo({ task: attempt.task })} style=${style} title=${`${words}\nfrom ${exactly(attempt.claimed_at)}`} aria-label=${words}>
    <span>${attempt.attempt > 1 ? `${attempt.attempt}× ` : ""}${title}</span></a>`;
}
