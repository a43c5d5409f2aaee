// Opt-in browser notifications: a task needs a person while the page is hidden.

import { kept } from "./kept.js";
import { go } from "./route.js";
import { columns, counts, loaded } from "./store.js";
import { say } from "./toast.js";
import { effect } from "./ui.js";
import { STATUS } from "./words.js";

const MOST = 3; // at once; more are one notification

export const offered = "Notification" in window;
export const notifies = kept("notify", false);

/** Switch notifications on or off. The browser asks the user once, and may refuse. */
export async function switchNotifying() {
  const wanted = !notifies.value;
  notifies.value = wanted && (await Notification.requestPermission()) === "granted";
  if (wanted && !notifies.value) say("This browser does not allow notifications for the board. Allow them in its settings for this page.", { kind: "bad" });
}

let known = null; // the tasks at the last check; null before the first
let place = "";

effect(() => {
  if (!loaded.value || !counts.value) return;
  const list = columns.value.needs;
  const { scope } = counts.value;
  const before = place === scope ? known : null;
  [known, place] = [new Set(list.map((task) => task.id)), scope];
  if (!before || !notifies.peek() || !document.hidden) return;
  announce(list.filter((task) => !before.has(task.id)));
});

function announce(fresh) {
  if (fresh.length > MOST) return show(`${fresh.length} tasks need you`, fresh[0].title, () => go({ view: "needs", task: "" }));
  return fresh.forEach((task) => show(task.title, `${STATUS[task.status]}${task.reason ? `: ${task.reason}` : ""}`, () => go({ view: "needs", task: task.id }), task.id));
}

function show(title, body, onClick, tag = "needs") {
  const note = new Notification(title, { body: body.slice(0, 200), tag: `dibs ${tag}`, icon: "./icon.svg" });
  note.onclick = () => {
    window.focus();
    onClick();
    note.close();
  };
}
