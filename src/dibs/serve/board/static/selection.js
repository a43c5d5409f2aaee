// Selection of several tasks, with Ctrl or Shift and a click, or with x; a bar shows their common actions.

import { commonActions, perform } from "./actions.js";
import { Icon } from "./icons.js";
import { columns, tasks } from "./store.js";
import { lately } from "./time.js";
import { computed, html, signal, useSignal } from "./ui.js";
import { plural } from "./words.js";

const ids = signal(new Set());
let anchor = null;

/** The selected tasks that still exist. */
export const selected = computed(() => [...ids.value].map((id) => tasks.value.get(id)).filter(Boolean));
export const isSelected = (id) => ids.value.has(id);

export function clearSelection() {
  if (ids.peek().size) ids.value = new Set();
  anchor = null;
}

export function toggle(id) {
  const next = new Set(ids.value);
  if (!next.delete(id)) next.add(id);
  ids.value = next;
  anchor = id;
}

export function select(list) {
  ids.value = new Set([...ids.value, ...list]);
}

/** The range from the last selected task to this one, if both are in one list. */
function extend(id, lists) {
  const list = lists.find((each) => each.some((task) => task.id === id) && each.some((task) => task.id === anchor));
  if (!list) return toggle(id);
  const [from, to] = [anchor, id].map((each) => list.findIndex((task) => task.id === each)).sort((a, b) => a - b);
  return select(list.slice(from, to + 1).map((task) => task.id));
}

/** A click on a task: with Ctrl or ⌘ it selects, with Shift it selects a range, else it opens. */
export function onPick(event, id, lists = Object.values(columns.peek())) {
  if (!(event.ctrlKey || event.metaKey || event.shiftKey) || event.target.closest("button, input")) return;
  event.preventDefault();
  if (event.shiftKey && anchor) extend(id, lists);
  else toggle(id);
}

/** A checkbox to select with the mouse; the key is x. */
export const Pick = ({ task }) =>
  html`<input class="pick" type="checkbox" tabindex="-1" aria-label=${`Select ${task.title}`} checked=${isSelected(task.id)} onClick=${(event) => { event.stopPropagation(); toggle(task.id); }} />`;

const LEADING = 4; // actions with a button of their own

export function BulkBar() {
  const open = useSignal(false);
  const list = selected.value;
  if (!list.length) return null;
  const actions = commonActions(list, lately.value);
  const run = (action) => {
    open.value = false;
    perform(action.key, action.fits);
  };
  const label = (action) => (action.fits.length < list.length ? `${action.label} (${action.fits.length})` : action.label);
  const button = (action) => html`<button key=${action.key} class=${action.danger ? "danger" : ""} onClick=${() => run(action)}>${label(action)}</button>`;
  return html`<div class="bulk" role="toolbar" aria-label="Selected tasks">
    <b>${plural(list.length, "task")} selected</b>
    ${actions.slice(0, LEADING).map(button)}
    ${actions.length > LEADING && html`<div class="menu" onKeyDown=${(event) => { if (event.key === "Escape" && open.value) { event.stopPropagation(); open.value = false; } }}>
      <button class="icon-only" aria-label="More actions for the selection" aria-expanded=${open.value} onClick=${() => { open.value = !open.value; }}><${Icon} name="more" /></button>
      ${open.value && html`<div class="choices up">${actions.slice(LEADING).map(button)}</div>`}
    </div>`}
    <button class="plain" onClick=${clearSelection}>Clear</button>
  </div>`;
}
