// Trends: throughput, times, failures by agent and label, and stuck tasks.

import { Holder } from "./lease.js";
import { linkTo, route } from "./route.js";
import { ago, exactly } from "./time.js";
import { SPANS, SpanChoice, useAnswer } from "./timeline.js";
import { html } from "./ui.js";
import { plural } from "./words.js";

const CHOICES = ["1h", "1d", "7d"];
const [WIDE, HIGH] = [720, 150];

export function Trends() {
  const span = CHOICES.includes(route.value.since) ? route.value.since : "1d";
  const { found, trouble } = useAnswer("/trends", { since: span }, 4000);
  return html`<main class="trends" aria-busy=${found || trouble ? undefined : "true"}>
    <header><h1>Trends</h1><p class="muted">${found && !found.whole ? `Since ${exactly(found.since)}: older events were not read.` : ""}</p><${SpanChoice} spans=${CHOICES} value=${span} /></header>
    ${trouble && html`<p class="trouble">${trouble}</p>`}
    ${found && html`<${Figures} found=${found} seconds=${SPANS[span][1]} /><${Chart} found=${found} />
      <div class="tables">
        <${Shares} name="Agents" rows=${found.agents} filter="agent" />
        <${Shares} name="Labels" rows=${found.labels} filter="label" />
      </div>
      <${Stuck} found=${found.stuck} />`}
  </main>`;
}

function Figures({ found, seconds }) {
  const hours = Math.min(seconds, (Date.parse(found.until) - Date.parse(found.since)) / 1000) / 3600;
  const rate = (number) => (hours < 0.2 ? "" : `${perHour(number / hours)} an hour`); // a rate from a few minutes would mislead
  const tried = found.finished + found.failed + found.expired;
  return html`<dl class="figures">
    <${Figure} name="Finished" value=${found.finished} note=${rate(found.finished)} />
    <${Figure} name="Added" value=${found.added} note=${rate(found.added)} />
    <${Figure} name="Failed" value=${found.failed} note=${tried ? `${Math.round((100 * found.failed) / tried)}% of attempts` : ""} />
    <${Figure} name="Leases expired" value=${found.expired} note=${tried ? `${Math.round((100 * found.expired) / tried)}% of attempts` : ""} />
    <${Figure} name="Median wait" value=${took(found.wait_seconds?.p50)} note=${found.wait_seconds ? `95% within ${took(found.wait_seconds.p95)}` : ""} />
    <${Figure} name="Median run time" value=${took(found.run_seconds?.p50)} note=${found.run_seconds ? `95% within ${took(found.run_seconds.p95)}` : ""} />
  </dl>`;
}

const Figure = ({ name, value, note }) => html`<div><dt>${name}</dt><dd><b>${value}</b><span class="muted">${note}</span></dd></div>`;

const perHour = (number) => (number >= 10 ? Math.round(number) : +number.toFixed(1));

function took(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${+seconds.toFixed(1)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${+(seconds / 3600).toFixed(1)} h`;
}

/** A column chart of finished tasks, with failures and expiries on top. */
function Chart({ found }) {
  const most = Math.max(1, ...found.buckets.map((one) => one.finished + one.failed + one.expired));
  const width = WIDE / found.buckets.length;
  const high = (number) => (number * (HIGH - 12)) / most;
  const column = (one, index) => {
    const parts = [["finished", one.finished], ["failed", one.failed], ["expired", one.expired]];
    let top = HIGH;
    return html`<g key=${index}><title>${`${exactly(one.at)}: ${one.finished} finished, ${one.failed} failed, ${one.expired} expired`}</title>
      ${parts.map(([kind, number]) => { top -= high(number); return number > 0 && html`<rect class=${kind} x=${index * width + 1.5} y=${top} width=${width - 3} height=${high(number)} rx="2" />`; })}</g>`;
  };
  const words = `${plural(found.finished, "task")} finished between ${exactly(found.since)} and ${exactly(found.until)}; at most ${most} in one of ${found.buckets.length} parts`;
  return html`<figure class="chart"><svg viewBox=${`0 0 ${WIDE} ${HIGH}`} preserveAspectRatio="none" role="img" aria-label=${words}>${found.buckets.map(column)}</svg>
    <figcaption class="muted"><span>${exactly(found.since)}</span><span class="keys-of"><i class="finished" aria-hidden="true"></i>finished <i class="failed" aria-hidden="true"></i>failed <i class="expired" aria-hidden="true"></i>expired</span><span>${exactly(found.until)}</span></figcaption></figure>`;
}

function Shares({ name, rows, filter }) {
  if (!rows.length) return null;
  return html`<section><h2>${name}</h2><div class="table" tabindex="0"><table>
    <thead><tr><th scope="col">${name.slice(0, -1)}</th><th scope="col">Finished</th><th scope="col">Failed</th><th scope="col">Expired</th><th scope="col">Median run</th><th scope="col">95% within</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.name}><td><a href=${linkTo({ view: "list", [filter]: row.name, since: "" })}>${filter === "agent" ? html`<${Holder} name=${row.name} />` : row.name}</a></td><td>${row.finished}</td><td>${row.failed}</td><td>${row.expired}</td><td>${took(row.run?.p50)}</td><td>${took(row.run?.p95)}</td></tr>`)}</tbody>
  </table></div></section>`;
}

function Stuck({ found }) {
  return html`<section class="stuck"><h2>Stuck</h2>
    ${found.length
      ? html`<ul>${found.map((one) => html`<li key=${one.task}><a href=${linkTo({ task: one.task })}>${one.title}</a><span class="muted">${one.why}</span><time class="muted" datetime=${one.since} title=${exactly(one.since)}>${ago(one.since)}</time></li>`)}</ul>`
      : html`<p class="muted">Nothing is stuck.</p>`}
  </section>`;
}
