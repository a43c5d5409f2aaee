// The events of a task as text, the latest first, with comments.

import { Prose } from "./text.js";
import { ago, exactly } from "./time.js";
import { classes, html, useSignal } from "./ui.js";
import { described } from "./words.js";

const SHOWN = 12;

export function History({ events }) {
  const all = useSignal(false);
  const latest = [...events].reverse();
  const drawn = all.value ? latest : latest.slice(0, SHOWN);
  return html`<section aria-labelledby="history">
    <h3 id="history">History</h3>
    <ol class="history">${drawn.map((event) => html`<${Happened} key=${event.seq} event=${event} />`)}</ol>
    ${latest.length > drawn.length && html`<button class="plain" onClick=${() => { all.value = true; }}>Show all ${latest.length}</button>`}
  </section>`;
}

function Happened({ event }) {
  const { who, what, more } = described(event);
  return html`<li class=${classes(event.verb, event.outcome)}>
    <div><b>${who}</b> ${what}${more && html`<span class="muted"> · ${more}</span>`}
      <time class="muted" datetime=${event.at} title=${exactly(event.at)}>${ago(event.at)}</time></div>
    ${event.verb === "comment" && html`<${Prose} text=${event.reason} />`}
  </li>`;
}
