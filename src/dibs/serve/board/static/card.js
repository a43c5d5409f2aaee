// A task on the board.

import { act, actionsFor } from "./actions.js";
import { Pick, isSelected, onPick } from "./selection.js";
import { Sign } from "./icons.js";
import { Holder, Lease } from "./lease.js";
import { linkTo, route } from "./route.js";
import { ago, lately, now } from "./time.js";
import { classes, html } from "./ui.js";
import { CLASSES, STATUS, standing, waitsFor } from "./words.js";

/** Class, override and priority. */
export function Urgency({ task }) {
  const unusual = task.service_class !== "standard";
  return html`<span class="urgency">
    ${unusual && html`<span class=${`class ${task.service_class}`}>${CLASSES[task.service_class]}</span>`}
    ${task.override && html`<span class="class first" title="A person put it first">First</span>`}
    <span class=${`priority p${Math.max(0, Math.min(4, Math.round(task.priority)))}`} title=${`Priority ${task.priority}; lower comes first`}>P${+task.priority.toFixed(2)}</span>
  </span>`;
}

const QUICK = { review: ["approve", "rework"], escalated: ["unblock"], blocked: ["unblock"] };

function Quick({ task, at }) {
  const keys = QUICK[task.status];
  if (!keys) return null;
  const offered = actionsFor(task, at).filter((action) => keys.includes(action.key));
  return html`<div class="quick">
    ${offered.map((action) => html`<button key=${action.key} aria-label=${`${action.label}: ${task.title}`} onClick=${() => act(action, task)}>${action.label}</button>`)}
  </div>`;
}

/** Labels; a click filters by one. */
export const Labels = ({ task }) =>
  task.labels && html`<span class="tags quick">${task.labels.map((label) => html`<a key=${label} class="tag" draggable=${false} title="Show tasks with this label" href=${linkTo({ label, task: "" })}>${label}</a>`)}</span>`;

/** Category, deliverable, assignee and start time. */
function About({ task, word, at }) {
  const kind = [task.category, task.deliverable, !task.lease && task.assigned_to && `for ${task.assigned_to}`].filter(Boolean).join(" · ");
  const waits = word === "waiting" || word === "later" ? waitsFor(task, at) : "";
  return (kind || waits) && html`<div class="meta"><span>${kind}</span><span>${waits}</span></div>`;
}

/** The holder, the agent that finished it, or why it needs a person. */
function Foot({ task, word, at }) {
  if (task.lease) {
    return html`<div class="foot"><${Holder} name=${task.lease.agent} human=${task.lease.holder === "human"} /><${Lease} lease=${task.lease} /></div>`;
  }
  if (word === "done" || word === "canceled") {
    return html`<div class="foot muted">${task.finished_by && html`<${Holder} name=${task.finished_by} />`}<span>${word === "done" ? "" : "canceled "}${ago(task.finished_at, at)}</span></div>`;
  }
  const calm = ["ready", "waiting", "later", "backlog"].includes(word);
  if (!task.reason && calm) return null;
  const lead = calm ? "" : `${STATUS[word]}${task.reason ? ": " : ""}`;
  return html`<div class="foot reason"><span><b>${lead}</b>${task.reason}</span></div>`;
}

// Reads signals, so it is drawn again only when those or its properties change.
export function Card({ task, drag, index, total }) {
  const at = task.lease?.expires_at ? now.value : lately.value; // shows a countdown
  const open = route.value.task === task.id;
  const word = standing(task, at);
  return html`<li class=${classes("card", word, open && "open", isSelected(task.id) && "selected")} data-id=${task.id} ...${drag}
    aria-posinset=${index + 1} aria-setsize=${total} onClick=${(event) => onPick(event, task.id)}>
    <div class="line">
      <${Pick} task=${task} />
      <${Sign} word=${word} alone=${true} />
      <span class="id">${task.id}</span>
      <${Urgency} task=${task} />
    </div>
    <a class="title" href=${linkTo({ task: task.id })} draggable=${false} aria-current=${open ? "true" : undefined}>${task.title}</a>
    <${About} task=${task} word=${word} at=${at} />
    <${Labels} task=${task} />
    <${Foot} task=${task} word=${word} at=${at} />
    <${Quick} task=${task} at=${at} />
  </li>`;
}
