// Dragging cards: within Ready to another position, or to another column. Alt with arrow keys also moves within Ready.

import { edited, named } from "./actions.js";
import { along, drop } from "./drops.js";
import { placed } from "./order.js";
import { columns, learn, take, tasks } from "./store.js";
import { complain, say } from "./toast.js";
import { signal } from "./ui.js";
import { CLASSES } from "./words.js";

/** The dragged card, the column below it, and the position in Ready where it would be dropped. */
export const dragging = signal(null);

export async function arrange(id, place) {
  const line = columns.value.ready;
  const task = tasks.value.get(id);
  const edits = placed(task, line, place);
  if (!edits.length) return;
  if (!(await named())) return;
  const before = edits.map(([each]) => tasks.value.get(each));
  take(edits.map(([each, changes]) => ({ ...tasks.value.get(each), ...changes }))); // shown at once
  if (await changed(edits)) {
    say(orderChange(task, Object.fromEntries(edits)[id]), { action: { label: "Undo", run: () => changed(before.map(asBefore)) } });
  }
}

/** Apply edits one by one from the front, so that a half-applied change is still in the old or new order. */
async function changed(edits) {
  try {
    for (const [each, changes] of edits) await edited(tasks.value.get(each), changes);
    return true;
  } catch (error) {
    complain(error);
    await learn(edits.map(([each]) => each)).catch(complain);
    return false;
  }
}

function asBefore(task) {
  const { service_class, override = false, priority, queued_at } = task;
  return [task.id, { service_class, override, priority, queued_at }];
}

function orderChange(task, changes) {
  const parts = [];
  if (changes.service_class) parts.push(`its class is ${CLASSES[changes.service_class].toLowerCase()} now`);
  if (changes.priority !== undefined) parts.push(`its priority is ${changes.priority} now`);
  if (changes.override !== undefined) parts.push(changes.override ? "it is put first" : "it is no longer put first");
  return `Moved ${task.id}${parts.length ? `: ${parts.join(", ")}` : ""}.`;
}

/** Move a task one position up or down. */
export function nudge(id, by) {
  const line = columns.value.ready;
  const at = line.findIndex((task) => task.id === id);
  if (at < 0 || at + by < 0 || at + by >= line.length) return;
  arrange(id, at + by);
}

export function dragOf(task) {
  return {
    draggable: true,
    onDragStart: (event) => {
      event.dataTransfer.effectAllowed = "move";
      event.dataTransfer.setData("text/plain", task.id);
      dragging.value = { id: task.id, column: "", place: -1 };
    },
    onDragEnd: () => {
      dragging.value = null;
    },
  };
}

/** The drop target: the column, and in Ready the position without the dragged card. */
export const dropOn = (column) => ({
  onDragOver: (event) => {
    if (!dragging.value) return;
    event.preventDefault();
    const { id } = dragging.value;
    const inLine = column.key === "ready" && columns.value.ready.some((task) => task.id === id);
    const place = inLine ? placeAt(event, id) : -1;
    if (place !== dragging.value.place || column.key !== dragging.value.column) dragging.value = { id, column: column.key, place };
  },
  onDrop: (event) => {
    event.preventDefault();
    const dropped = dragging.value;
    dragging.value = null;
    if (!dropped) return;
    if (dropped.place >= 0 && along(dropped.id).length === 1) arrange(dropped.id, dropped.place);
    else drop(along(dropped.id), column);
  },
});

/** The position in the column, of which only visible cards are in the page. */
function placeAt(event, id) {
  const others = columns.value.ready.filter((task) => task.id !== id);
  const cards = [...event.currentTarget.querySelectorAll(".card")].filter((card) => card.dataset.id !== id);
  const below = cards.find((card) => event.clientY < middle(card));
  if (below) return others.findIndex((task) => task.id === below.dataset.id);
  const last = cards.at(-1);
  return last ? others.findIndex((task) => task.id === last.dataset.id) + 1 : 0;
}

function middle(card) {
  const box = card.getBoundingClientRect();
  return box.top + box.height / 2;
}
