// Needs you: an inbox of tasks that need a person. The keys 1, 2 and 3 answer the focused row.

import { act, actionsFor } from "./actions.js";
import { Sign } from "./icons.js";
import { Holder } from "./lease.js";
import { notifies, offered, switchNotifying } from "./notify.js";
import { linkTo } from "./route.js";
import { columns, loaded } from "./store.js";
import { Pick, isSelected, onPick } from "./selection.js";
import { Prose, Value } from "./text.js";
import { ago, lately } from "./time.js";
import { classes, html } from "./ui.js";
import { Rows } from "./virtual.js";
import { STATUS, plural } from "./words.js";

const GUESS = 170; // estimated pixels of a row that was not drawn yet
const ANSWERS = 3;

export function Needs() {
  if (!loaded.value) return html`<main class="needs" aria-busy="true"></main>`;
  const list = columns.value.needs;
  return html`<main class="needs">
    <header>
      <h1>Needs you</h1>
      <p class="muted">${list.length ? plural(list.length, "task waits for a person", "tasks wait for a person") : ""}</p>
      ${offered && html`<label class="switch"><input type="checkbox" checked=${notifies.value} onChange=${switchNotifying} /> Notify me in this browser</label>`}
    </header>
    ${list.length
      ? html`<${Rows} name="inbox" items=${list} estimate=${GUESS} gap=${10} draw=${(task) => html`<${Item} key=${task.id} task=${task} lists=${[list]} />`} />`
      : html`<div class="welcome"><h2>All clear</h2><p class="muted">Tasks in review, blocked tasks and decisions appear here. Agents ask with <code>dibs review</code> and <code>dibs block</code>.</p></div>`}
  </main>`;
}

/** The first actions of a task in the inbox, in the order of their keys. */
export const answersTo = (task) => actionsFor(task, lately.value).slice(0, ANSWERS);

function Item({ task }) {
  return html`<li class=${classes("item", task.status, isSelected(task.id) && "selected")} data-id=${task.id} onClick=${(event) => onPick(event, task.id)}>
    <div class="line"><${Pick} task=${task} /><${Sign} word=${task.status} /><span class="muted">${STATUS[task.status]}</span><span class="id">${task.id}</span>
      ${task.finished_by && html`<${Holder} name=${task.finished_by} />`}<span class="muted when">${ago(task.updated_at)}</span></div>
    <a class="title" href=${linkTo({ task: task.id })}>${task.title}</a>
    ${task.reason && html`<div class="asks"><${Prose} text=${task.reason} /></div>`}
    ${task.unblock_action && html`<p class="todo"><b>To do:</b> ${task.unblock_action}</p>`}
    ${task.result !== undefined && html`<div class="brief"><${Value} value=${task.result} /></div>`}
    <div class="quick">
      ${answersTo(task).map((action, index) => html`<button key=${action.key} class=${index ? "" : "primary"} aria-label=${`${action.label}: ${task.title}`} onClick=${() => act(action, task)}>${action.label} <kbd aria-hidden="true">${index + 1}</kbd></button>`)}
    </div>
  </li>`;
}
