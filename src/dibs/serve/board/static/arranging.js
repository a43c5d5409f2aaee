// Put a ready task before or behind another: by dragging its card, or with Alt and the arrow keys.

import { edited } from "./actions.js";
import { placed } from "./order.js";
import { columns, learn, take, tasks } from "./store.js";
import { complain, say } from "./toast.js";
import { signal } from "./ui.js";
import { CLASSES } from "./words.js";

/** The card that is dragged, and the place in the line where it would be let go. */
export const dragging = signal(null);

export async function arrange(id, place) {
  const line = columns.value.ready;
  const task = tasks.value.get(id);
  const edits = placed(task, line, place);
  if (!edits.length) return;
  const before = edits.map(([each]) => tasks.value.get(each));
  take(edits.map(([each, changes]) => ({ ...tasks.value.get(each), ...changes }))); // shown at once
  if (await changed(edits)) {
    say(told(task, Object.fromEntries(edits)[id]), { action: { label: "Undo", run: () => changed(before.map(asBefore)) } });
  }
}

/** One after the other, the foremost first: a line that is half changed is still in the old or the new order. */
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

function told(task, changes) {
  const parts = [];
  if (changes.service_class) parts.push(`its class is ${CLASSES[changes.service_class].toLowerCase()} now`);
  if (changes.priority !== undefined) parts.push(`its priority is ${changes.priority} now`);
  if (changes.override !== undefined) parts.push(changes.override ? "it is put first" : "it is no longer put first");
  return `Moved ${task.id}${parts.length ? `: ${parts.join(", ")}` : ""}.`;
}

/** One up or down. */
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
      dragging.value = { id: task.id, place: -1 };
    },
    onDragEnd: () => {
      dragging.value = null;
    },
  };
}

/** Of the list: where among its cards the pointer is, leaving out the card that is dragged. */
export const dropTarget = {
  onDragOver: (event) => {
    if (!dragging.value) return;
    event.preventDefault();
    const cards = [...event.currentTarget.querySelectorAll(".card")].filter((card) => card.dataset.id !== dragging.value.id);
    const place = cards.findIndex((card) => event.clientY < middle(card));
    const now = place < 0 ? cards.length : place;
    if (now !== dragging.value.place) dragging.value = { ...dragging.value, place: now };
  },
  onDrop: (event) => {
    event.preventDefault();
    const dropped = dragging.value;
    dragging.value = null;
    if (dropped && dropped.place >= 0) arrange(dropped.id, dropped.place);
  },
};

function middle(card) {
  const box = card.getBoundingClientRect();
  return box.top + box.height / 2;
}
