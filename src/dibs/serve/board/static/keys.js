// Everything that can be done without a mouse.

import { nudge } from "./arranging.js";
import { asking } from "./dialog.js";
import { go, route } from "./route.js";
import { tasks } from "./store.js";
import { closeTask } from "./task.js";
import { addTask, editTask } from "./taskform.js";
import { switchTheme } from "./theme.js";
import { attempt } from "./toast.js";
import { html, signal, useEffect, useRef } from "./ui.js";

export const helping = signal(false);

const typing = (element) => element?.matches?.("input, textarea, select, [contenteditable]");
const cards = () => [...document.querySelectorAll(".column")].map((column) => [...column.querySelectorAll(".card .title")]).filter((list) => list.length);

/** Go to the next card in a direction: down and up in a column, left and right between columns. */
function step(down, right) {
  const grid = cards();
  if (!grid.length) return;
  const focused = document.activeElement?.closest?.(".card")?.querySelector(".title");
  const column = grid.findIndex((list) => list.includes(focused));
  if (column < 0) return show(grid[Math.max(0, grid.findIndex((list) => list[0].closest(".column").classList.contains("ready")))][0]);
  const row = grid[column].indexOf(focused);
  const list = grid[(column + right + grid.length) % grid.length];
  return show(list[Math.max(0, Math.min(list.length - 1, row + down))]);
}

function show(card) {
  card.focus();
  card.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (route.value.task) go({ task: card.closest(".card").dataset.id });
}

/** The task that a key is meant for: the card under the focus, or the one that is open. */
const meant = () => tasks.value.get(document.activeElement?.closest?.(".card")?.dataset.id ?? route.value.task);

function search() {
  document.querySelector("#search").focus();
  document.querySelector("#search").select();
}

export const KEYS = [
  ["?", "These keys", () => { helping.value = true; }],
  ["/", "Search", search],
  ["n", "New task", () => addTask()],
  ["b", "Board", () => go({ view: "board" })],
  ["g", "Graph", () => go({ view: "graph" })],
  ["a", "Agents", () => go({ view: "agents" })],
  ["c", "Chat", () => go({ view: "chat" })],
  ["j", "Next card", () => step(1, 0), "ArrowDown"],
  ["k", "Card before", () => step(-1, 0), "ArrowUp"],
  ["l", "Next column", () => step(0, 1), "ArrowRight"],
  ["h", "Column before", () => step(0, -1), "ArrowLeft"],
  ["e", "Edit the task", () => { const task = meant(); if (task) attempt(() => editTask(task)); }],
  ["t", "Light or dark", switchTheme],
];

const OTHERS = [
  ["Enter", "Open the card"],
  ["Esc", "Close, or leave the search"],
  ["Alt ↑ ↓", "Move it in the line"],
];

function onKeyDown(event) {
  if (event.defaultPrevented || asking() || helping.value) return;
  if (event.key === "Escape") return leave(event);
  if (typing(event.target)) return undefined;
  if (event.altKey && ["ArrowUp", "ArrowDown"].includes(event.key)) return rearrange(event);
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  const arrows = event.key.startsWith("Arrow");
  if (arrows && (route.value.view !== "board" || scrollsItself(event.target))) return undefined;
  const found = KEYS.find(([key, , , other]) => event.key === key || event.key === other);
  if (!found) return undefined;
  event.preventDefault();
  return found[2]();
}

const scrollsItself = (element) => element.closest?.(".panel, pre, .menu, [role=log]");

function leave(event) {
  if (typing(event.target)) event.target.blur();
  else if (route.value.task) {
    const { task } = route.value;
    closeTask();
    document.querySelector(`.card[data-id="${CSS.escape(task)}"] .title`)?.focus();
  }
}

function rearrange(event) {
  const id = document.activeElement?.closest?.(".card")?.dataset.id;
  if (!id) return;
  event.preventDefault();
  nudge(id, event.key === "ArrowDown" ? 1 : -1);
}

document.addEventListener("keydown", onKeyDown);

export function KeyHelp() {
  return helping.value && html`<${Help} />`;
}

function Help() {
  const box = useRef();
  useEffect(() => box.current.showModal(), []);
  const close = () => { helping.value = false; };
  return html`<dialog ref=${box} aria-labelledby="keys" onClose=${close}>
    <form method="dialog">
      <h2 id="keys">Keys</h2>
      <dl class="keys">
        ${[...KEYS, ...OTHERS].map(([key, what, , other]) => html`<div key=${key}><dt><kbd>${key}</kbd>${other && html` <kbd>${{ ArrowDown: "↓", ArrowUp: "↑", ArrowRight: "→", ArrowLeft: "←" }[other]}</kbd>`}</dt><dd>${what}</dd></div>`)}
      </dl>
      <div class="buttons"><button class="primary" type="submit">Close</button></div>
    </form>
  </dialog>`;
}
