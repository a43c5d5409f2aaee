// The actions that a drop on a column offers, or why it offers none. `m` offers the same by keyboard.

import { action, perform, placeOf } from "./actions.js";
import { choose } from "./dialog.js";
import { clearSelection, isSelected, selected } from "./selection.js";
import { tasks } from "./store.js";
import { lately } from "./time.js";
import { say } from "./toast.js";
import { COLUMNS, columnOf, plural } from "./words.js";

const IDLE = ["backlog", "ready", "waiting", "later", "blocked", "escalated", "expired"];
const each = (places, keys) => Object.fromEntries(places.map((place) => [place, keys]));

/** Actions by column and by the task's current place. */
const DROPS = {
  aside: { ...each(["ready", "waiting", "later"], ["shelve", "pause"]), ...each(["active", "human", "expired", "review", "blocked", "escalated"], ["pause"]) },
  waiting: each(["backlog", "ready", "later", "blocked", "escalated", "paused"], ["waits"]),
  ready: {
    backlog: ["queue"], paused: ["resume"], blocked: ["unblock"], escalated: ["unblock"], review: ["rework"], later: ["due"],
    ...each(["active", "human", "expired"], ["release"]), ...each(["done", "canceled"], ["reopen"]),
  },
  work: { ...each(["ready", "expired"], ["claim"]), ...each(["backlog", "waiting", "later", "paused", "review", "blocked", "escalated"], ["takeOver"]) },
  needs: { ...each(["backlog", "ready", "waiting", "later", "expired"], ["block"]), ...each(["active", "human"], ["review", "block"]) },
  finished: { ...each(IDLE, ["finish", "cancel"]), human: ["done", "cancel"], active: ["finish", "cancel"], review: ["approve", "cancel"], paused: ["cancel"] },
};

/** The action keys that a column offers a task; without any, the reason. */
export function dropOf(task, column, at) {
  const keys = DROPS[column][placeOf(task, at)] ?? [];
  if (keys.length || columnOf(task, at) === column) return { keys, why: "" };
  return { keys, why: whyNot(task, column) };
}

function whyNot(task, column) {
  if (["done", "canceled"].includes(task.status)) return `${task.id} is ${task.status}. Reopen it first: drop it on Ready.`;
  if (column === "ready" && task.blockers) return `${task.id} waits for ${plural(task.blockers, "unfinished task")}. It becomes ready when ${task.blockers === 1 ? "that is" : "those are"} finished, or when you remove the ${task.blockers === 1 ? "link" : "links"}.`;
  if (task.status === "paused") return `${task.id} is paused. Resume it first: drop it on Ready.`;
  if (column === "waiting") return `${task.id} is ${task.status}. A task that has begun cannot wait for others; release it first.`;
  return `${task.id} is ${task.status}; it cannot be moved to this column.`;
}

/** The tasks dragged with this one: the selection, if the task is in it. */
export const along = (id) => (isSelected(id) ? selected.value : [tasks.value.get(id)].filter(Boolean));

/** Drop tasks on a column: perform its action, let the user choose if there are several, or show why there is none. */
export async function drop(list, column) {
  const at = lately.value;
  const found = list.map((task) => ({ task, ...dropOf(task, column.key, at) }));
  const keys = [...new Set(found.flatMap((one) => one.keys))];
  const [why] = found.map((one) => one.why).filter(Boolean);
  if (!keys.length) return why && say(why, { kind: "bad" });
  const key = keys.length === 1 ? keys[0] : await choose({ title: `${column.name}: ${subject(list)}`, text: list.length === 1 ? list[0].title : "", options: keys.map(option) });
  if (!key) return undefined;
  const done = await perform(key, found.filter((one) => one.keys.includes(key)).map((one) => one.task));
  if (done) clearSelection();
  return done;
}

const subject = (list) => (list.length === 1 ? list[0].id : plural(list.length, "task"));
const option = (key) => [key, wording(key)];
const wording = (key) => action(key).confirm ?? action(key).label; // "Cancel the task", where "Cancel" would close the question

/** Let the user choose a column and action for tasks; only possible ones are offered. */
export async function moveTo(list) {
  if (!list.length) return;
  const at = lately.value;
  const offers = COLUMNS.flatMap((column) => {
    const keys = [...new Set(list.flatMap((task) => dropOf(task, column.key, at).keys))];
    return keys.map((key) => [`${column.key} ${key}`, `${column.name}: ${wording(key)}`]);
  });
  const chosen = await choose({ title: `Move ${subject(list)}`, text: list.length === 1 ? list[0].title : "", options: offers });
  if (!chosen) return;
  const [column, key] = chosen.split(" ");
  await perform(key, list.filter((task) => dropOf(task, column, at).keys.includes(key)));
}
