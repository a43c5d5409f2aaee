// Keyboard commands.

import { act } from "./actions.js";
import { nudge } from "./arranging.js";
import { asking } from "./dialog.js";
import { moveTo } from "./drops.js";
import { answersTo } from "./needs.js";
import { openPalette, paletteOpen } from "./palette.js";
import { go, route } from "./route.js";
import { clearSelection, select, selected, toggle } from "./selection.js";
import { tasks } from "./store.js";
import { closeTask } from "./task.js";
import { addTask, editTask } from "./taskform.js";
import { switchTheme } from "./theme.js";
import { attempt } from "./toast.js";
import { startTour } from "./tour.js";
import { html, signal, useLayoutEffect, useRef } from "./ui.js";

export const helping = signal(false);

const typing = (element) => element?.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]");

// Moving between tasks. Only visible rows of a list are in the page; any row can be scrolled into view.

let current = ""; // the task focused last; a row loses the focus when it is scrolled away

const focusedId = () => document.activeElement?.closest?.("[data-id]")?.dataset.id;

function step(down, right) {
  const lists = [...document.querySelectorAll("main .rows")].filter((list) => list.rows?.items.length);
  if (!lists.length) return;
  const id = focusedId() ?? current;
  const column = lists.findIndex((list) => list.rows.items.some((task) => task.id === id));
  if (column < 0) return show(lists.find((list) => list.closest(".column.ready")) ?? lists[0], lists[0].rows.items[0].heading ? 1 : 0);
  const row = lists[column].rows.items.findIndex((task) => task.id === id);
  const list = lists[(column + right + lists.length) % lists.length];
  const next = Math.max(0, Math.min(list.rows.items.length - 1, row + down));
  return show(list, list.rows.items[next].heading ? Math.max(1, next + (down || 1)) : next);
}

function show(list, index) {
  const { id } = list.rows.items[index];
  current = id;
  list.rows.reveal(index);
  const focus = () => list.querySelector(`[data-id="${CSS.escape(id)}"] .title`)?.focus({ preventScroll: true });
  focus();
  if (focusedId() !== id) requestAnimationFrame(() => requestAnimationFrame(focus));
  list.closest(".column")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (route.value.task) go({ task: id });
}

function selectAll() {
  const list = document.activeElement?.closest?.(".rows") ?? document.querySelector("main .rows");
  select((list?.rows?.items ?? []).map((task) => task.id));
}

/** The target of a key: the focused task, or the open one. */
const meant = () => tasks.value.get(focusedId() ?? route.value.task);

/** The targets of a command: the selection, or that task. */
const meantAll = () => (selected.value.length ? selected.value : [meant()].filter(Boolean));

function search() {
  document.querySelector("#search").focus();
  document.querySelector("#search").select();
}

const view = (name) => () => go({ view: name, task: "" });

/** Key, description, function, and options: a second key, or hidden in the palette. */
export const KEYS = [
  ["Ctrl K", "Commands", () => openPalette(meantAll()), { hidden: true }],
  ["?", "Show the keys", () => { helping.value = true; }],
  ["/", "Search", search],
  ["n", "New task", () => addTask()],
  ["b", "Board", view("board")],
  ["i", "Needs you", view("needs")],
  ["o", "List", view("list")],
  ["g", "Graph", view("graph")],
  ["y", "Timeline", view("timeline")],
  ["a", "Agents", view("agents")],
  ["r", "Trends", view("trends")],
  ["c", "Chat", view("chat")],
  ["j", "Next task", () => step(1, 0), { other: "ArrowDown", hidden: true }],
  ["k", "Previous task", () => step(-1, 0), { other: "ArrowUp", hidden: true }],
  ["l", "Next column", () => step(0, 1), { other: "ArrowRight", hidden: true }],
  ["h", "Previous column", () => step(0, -1), { other: "ArrowLeft", hidden: true }],
  ["x", "Select the task", () => { const task = meant(); if (task) toggle(task.id); }],
  ["m", "Move to a column", () => moveTo(meantAll())],
  ["e", "Edit the task", () => { const task = meant(); if (task) attempt(() => editTask(task)); }],
  ["w", "Guided tour", startTour],
  ["t", "Switch between light and dark", switchTheme],
];

const OTHERS = [
  ["Enter", "Open the task"],
  ["1 2 3", "First, second, third action of the task"],
  ["Esc", "Close, clear the selection or leave the search"],
  ["Alt ↑ ↓", "Move it in the order of Ready"],
  ["Ctrl A", "Select the whole list"],
  ["Shift or Ctrl and a click", "Select with the mouse"],
  ["Ctrl Enter", "Save a form"],
];

function onKeyDown(event) {
  if (event.defaultPrevented || asking() || helping.value || paletteOpen()) return undefined;
  const command = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  if (command && event.key.toLowerCase() === "k") return handled(event, () => openPalette(meantAll()));
  if (event.key === "Escape") return leave(event);
  if (typing(event.target)) return undefined;
  if (command && event.key.toLowerCase() === "a" && document.querySelector("main .rows")) return handled(event, selectAll);
  if (event.altKey && ["ArrowUp", "ArrowDown"].includes(event.key)) return rearrange(event);
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  if (event.key.startsWith("Arrow") && (!document.querySelector("main .rows") || scrollsItself(event.target))) return undefined;
  if (/^[1-3]$/.test(event.key)) return answer(event, Number(event.key) - 1);
  const found = KEYS.find(([key, , , options]) => event.key === key || event.key === options?.other);
  return found && handled(event, found[2]);
}

function handled(event, work) {
  event.preventDefault();
  work();
}

const scrollsItself = (element) => element.closest?.(".panel, pre, .menu, [role=log], .table");

function answer(event, place) {
  const task = meant();
  const chosen = task && answersTo(task)[place];
  if (chosen) handled(event, () => act(chosen, task));
}

function leave(event) {
  if (typing(event.target)) event.target.blur();
  else if (selected.value.length) clearSelection();
  else if (route.value.task) {
    const { task } = route.value;
    closeTask();
    document.querySelector(`main [data-id="${CSS.escape(task)}"] .title`)?.focus();
  }
}

function rearrange(event) {
  const id = focusedId();
  if (id) handled(event, () => nudge(id, event.key === "ArrowDown" ? 1 : -1));
}

document.addEventListener("keydown", onKeyDown);
document.addEventListener("focusin", () => {
  current = focusedId() ?? current;
});

export function KeyHelp() {
  return helping.value && html`<${Help} />`;
}

const ARROWS = { ArrowDown: "↓", ArrowUp: "↑", ArrowRight: "→", ArrowLeft: "←" };

function Help() {
  const box = useRef();
  useLayoutEffect(() => box.current.showModal(), []);
  const close = () => { helping.value = false; };
  return html`<dialog ref=${box} class="wide" aria-labelledby="keys" onClose=${close}>
    <form method="dialog">
      <h2 id="keys">Keys</h2>
      <dl class="keys">
        ${[...KEYS, ...OTHERS].map(([key, what, , options]) => html`<div key=${key}><dt><kbd>${key}</kbd>${options?.other && html` <kbd>${ARROWS[options.other]}</kbd>`}</dt><dd>${what}</dd></div>`)}
      </dl>
      <div class="buttons"><button class="primary" type="submit">Close</button></div>
    </form>
  </dialog>`;
}
