// The panel of a task: its fields, links, output, result and history.

import { act, actionsFor, named } from "./actions.js";
import { get, post, taskPath } from "./server.js";
import { Labels, Urgency } from "./card.js";
import { History } from "./history.js";
import { Icon, Sign } from "./icons.js";
import { Holder, Lease } from "./lease.js";
import { Links } from "./links.js";
import { go, route } from "./route.js";
import { tasks, version } from "./store.js";
import { editTask } from "./taskform.js";
import { Prose, Value } from "./text.js";
import { ago, exactly, lately } from "./time.js";
import { attempt } from "./toast.js";
import { submitsOnCtrlEnter } from "./dialog.js";
import { html, useEffect, useRef, useSignal } from "./ui.js";
import { STATUS, standing } from "./words.js";
import { Attempts, Branch, Inputs, Output } from "./work.js";

export const closeTask = () => go({ task: "" });

export function TaskPanel() {
  const id = route.value.task;
  return id ? html`<${Panel} key=${`${route.value.scope}/${id}`} id=${id} />` : null;
}

/** The task with links and events, read again after each change, one read at a time. */
function useTask(id) {
  const found = useSignal(null);
  const trouble = useSignal(null);
  const busy = useRef(false);
  const current = version.value;
  useEffect(() => {
    if (busy.current) return;
    busy.current = true;
    const read = async () => {
      const asked = version.peek();
      try {
        found.value = await get(taskPath(id));
        trouble.value = null;
      } catch (error) {
        if (error.status !== 0 || !found.peek()) trouble.value = error;
      }
      busy.current = false;
      if (version.peek() !== asked) setTimeout(() => { busy.current = true; read(); }, 200);
    };
    read();
  }, [current]);
  return { found: found.value, trouble: trouble.value };
}

function Panel({ id }) {
  const { found, trouble } = useTask(id);
  const box = useRef();
  useEffect(() => {
    box.current.focus({ preventScroll: true });
  }, []);
  const task = tasks.value.get(id) ?? found?.task;
  return html`<aside class="panel" ref=${box} tabindex="-1" aria-label=${task ? `Task ${task.title}` : "Task"}>
    <header>
      <span class="id">${id}</span>
      <button class="icon-only" aria-label="Close" title="Close (Esc)" onClick=${closeTask}><${Icon} name="close" /></button>
    </header>
    ${trouble && !task && html`<p class="trouble">${trouble.message}</p>`}
    ${task && html`<${Body} task=${task} found=${found} />`}
  </aside>`;
}

function Body({ task, found }) {
  const at = lately.value;
  const attempt = useSignal(undefined); // the attempt whose output is shown; by default the latest
  const choose = (number) => { attempt.value = number; };
  const word = standing(task, at);
  return html`<div class="body">
    <h2>${task.title}</h2>
    <p class="state">
      <span class=${`pill ${word}`}><${Sign} word=${word} /> ${STATUS[word]}</span>
      <${Urgency} task=${task} />
      ${task.lease && html`<${Holder} name=${task.lease.agent} human=${task.lease.holder === "human"} /><${Lease} lease=${task.lease} />`}
    </p>
    ${task.reason && html`<p class="why">${task.reason}</p>`}
    <${Actions} task=${task} at=${at} />
    ${task.description && html`<section><${Prose} text=${task.description} /></section>`}
    ${task.steps && html`<section><h3>Steps</h3><ol class="steps">${task.steps.map((step) => html`<li>${step}</li>`)}</ol></section>`}
    <${Result} task=${task} />
    <${Branch} task=${task} />
    <${Output} task=${task} attempt=${attempt.value} choose=${choose} />
    ${found && html`<${Attempts} events=${found.events} choose=${choose} /><${Inputs} task=${task} links=${found.links} /><${Links} task=${task} links=${found.links} />`}
    <${Facts} task=${task} />
    <${Comment} task=${task} />
    ${found && html`<${History} events=${found.events} />`}
  </div>`;
}

const LEADING = 2; // actions that have a button of their own

function Actions({ task, at }) {
  const all = actionsFor(task, at);
  const open = useSignal(false);
  const finished = ["done", "canceled"].includes(task.status);
  const run = (action) => {
    open.value = false;
    act(action, task);
  };
  return html`<div class="actions">
    ${all.slice(0, LEADING).map((action, index) => html`<button key=${action.key} class=${index ? "" : "primary"} onClick=${() => run(action)}>${action.label}</button>`)}
    ${!finished && html`<button onClick=${() => attempt(() => editTask(task))}>Edit</button>`}
    ${all.length > LEADING && html`<div class="menu" onKeyDown=${(event) => { if (event.key === "Escape" && open.value) { event.stopPropagation(); open.value = false; } }}>
      <button class="icon-only" aria-label="More actions" aria-expanded=${open.value} onClick=${() => { open.value = !open.value; }}><${Icon} name="more" /></button>
      ${open.value && html`<div class="choices">
        ${all.slice(LEADING).map((action) => html`<button key=${action.key} class=${action.danger ? "danger" : ""} onClick=${() => run(action)}>${action.label}</button>`)}
      </div>`}
    </div>`}
  </div>`;
}

/** A result; if it has only a note, the note. */
function Outcome({ result }) {
  const only = result !== null && typeof result === "object" && Object.keys(result).length === 1 && typeof result.note === "string";
  return html`<${Value} value=${only ? result.note : result} />`;
}

function Result({ task }) {
  if (task.result === undefined && !task.artifacts) return null;
  return html`<section>
    <h3>Result</h3>
    ${task.result !== undefined && html`<${Outcome} result=${task.result} />`}
    ${task.artifacts && html`<ul class="artifacts">${task.artifacts.map((artifact) => html`<li><${Artifact} place=${artifact} /></li>`)}</ul>`}
  </section>`;
}

const Artifact = ({ place }) =>
  /^https?:\/\//.test(place) ? html`<a href=${place} target="_blank" rel="noopener noreferrer nofollow">${place}</a>` : html`<code>${place}</code>`;

const moment = (text) => html`<time datetime=${text} title=${exactly(text)}>${ago(text)}</time>`;
const due = (text) => html`<time datetime=${text}>${exactly(text)}</time>`;

/** Further fields by name. */
function facts(task) {
  return [
    ["Category", task.category],
    ["Labels", task.labels && html`<${Labels} task=${task} />`],
    ["Deliverable", task.deliverable],
    ["Only for", task.assigned_to],
    ["Requires", task.requires?.join(", ")],
    ["Attempt", task.attempt || null],
    ["Retries", task.retries || task.max_retries !== undefined ? `${task.retries ?? 0}${task.max_retries === undefined ? "" : ` of ${task.max_retries}`}` : null],
    ["Unblock by", task.unblock_action],
    ["Look again", task.next_check_at && due(task.next_check_at)],
    ["Not before", task.not_before && due(task.not_before)],
    ["Part of", task.parent],
    ["Specification", task.spec_ref],
    ["Reference", task.ref],
    ["Merged into", task.merged_into],
    ["Origin", task.origin],
    ["Added", moment(task.created_at)],
    ["Finished", task.finished_at && moment(task.finished_at)],
    ["Finished by", task.finished_by],
    ...Object.entries(task.extra ?? {}).filter(([name]) => name !== "git").map(([name, value]) => [name, typeof value === "string" ? value : html`<${Value} value=${value} />`]),
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
}

const Facts = ({ task }) =>
  html`<section><h3>Details</h3><dl class="facts">${facts(task).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></section>`;

function Comment({ task }) {
  const text = useSignal("");
  const onSubmit = async (event) => {
    event.preventDefault();
    const said = text.value.trim();
    if (!said || !(await named())) return;
    if (await attempt(() => post(taskPath(task.id, "comments"), { text: said }))) text.value = "";
  };
  return html`<section>
    <h3><label for="comment">Comment</label></h3>
    <form class="comment" onSubmit=${onSubmit} onKeyDown=${submitsOnCtrlEnter}>
      <textarea id="comment" rows="2" placeholder="Markdown, for people and the next agent" value=${text} onInput=${(event) => { text.value = event.currentTarget.value; }}></textarea>
      <button type="submit" disabled=${!text.value.trim()}>Comment</button>
    </form>
  </section>`;
}
