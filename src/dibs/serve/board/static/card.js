// A task on the board.

import { act, actionsFor } from "./actions.js";
import { Sign } from "./icons.js";
import { Holder, Lease } from "./lease.js";
import { linkTo, route } from "./route.js";
import { ago, lately, now } from "./time.js";
import { classes, html } from "./ui.js";
import { CLASSES, STATUS, standing, waitsFor } from "./words.js";

/** What makes it come early or late: the class, where it is not the usual one, being put first, and the priority. */
export function Urgency({ task }) {
  const unusual = task.service_class !== "standard";
  return html`<span class="urgency">
    ${unusual && html`<span class=${`class ${task.service_class}`}>${CLASSES[task.service_class]}</span>`}
    ${task.override && html`<span class="class first" title="A person put it first">First</span>`}
    <span class=${`priority p${Math.max(0, Math.min(4, Math.round(task.priority)))}`} title=${`Priority ${task.priority}; lower comes first`}>P${+task.priority.toFixed(2)}</span>
  </span>`;
}

const QUICK = { review: ["approve", "rework"], escalated: ["goOn"], blocked: ["unblock"] };

function Quick({ task, at }) {
  const keys = QUICK[task.status];
  if (!keys) return null;
  const offered = actionsFor(task, at).filter((action) => keys.includes(action.key));
  return html`<div class="quick">
    ${offered.map((action) => html`<button key=${action.key} aria-label=${`${action.label}: ${task.title}`} onClick=${() => act(action, task)}>${action.label}</button>`)}
  </div>`;
}

/** Each label looks for the tasks that have it. */
export const Labels = ({ task }) =>
  task.labels && html`<span class="tags quick">${task.labels.map((label) => html`<a key=${label} class="tag" draggable=${false} title="Show tasks with this label" href=${linkTo({ text: label, task: "" })}>${label}</a>`)}</span>`;

/** What kind of work it is, for whom, and when it can begin. */
function About({ task, word, at }) {
  const kind = [task.category, task.deliverable, !task.lease && task.assigned_to && `for ${task.assigned_to}`].filter(Boolean).join(" · ");
  const waits = word === "waiting" || word === "later" ? waitsFor(task, at) : "";
  return (kind || waits) && html`<div class="meta"><span>${kind}</span><span>${waits}</span></div>`;
}

/** What there is to say of it where it stands: who holds it or finished it, why it needs somebody. */
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

// It reads signals, so it is drawn again only when one of those or of its properties has changed.
export function Card({ task, drag }) {
  const at = task.lease?.expires_at ? now.value : lately.value; // a lease runs out to the second
  const open = route.value.task === task.id;
  const word = standing(task, at);
  return html`<li class=${classes("card", word, open && "open")} data-id=${task.id} ...${drag}>
    <div class="line">
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
