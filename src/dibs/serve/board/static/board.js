// The columns.

import { action } from "./actions.js";
import { dragOf, dragging, dropOn } from "./arranging.js";
import { Card } from "./card.js";
import { dropOf } from "./drops.js";
import { Filters } from "./filters.js";
import { go, route } from "./route.js";
import { columns, counts, filtered, hasMore, loaded, readMore, tasks, totalOf } from "./store.js";
import { addTask } from "./taskform.js";
import { attempt } from "./toast.js";
import { lately } from "./time.js";
import { classes, html, useEffect, useRef } from "./ui.js";
import { Rows } from "./virtual.js";
import { COLUMNS, plural } from "./words.js";

const GUESS = 104; // estimated pixels of a card that was not drawn yet
const GAP = 8;

export function Board() {
  if (!loaded.value) return html`<main class="board" aria-busy="true"><${Placeholder} /></main>`;
  if (isBare()) return html`<main class="board"><${Welcome} /></main>`;
  return html`<main class="board">
    <h1 class="unseen">Board</h1>
    <${Filters} />
    <div class="columns" ref=${narrow}>${COLUMNS.map((column) => html`<${Column} key=${column.key} column=${column} />`)}</div>
  </main>`;
}

/** On a narrow screen, scroll to Ready first. */
function narrow(columns) {
  if (columns && columns.clientWidth < 700) columns.scrollLeft = columns.querySelector(".ready").offsetLeft - 12;
}

const isBare = () => !filtered.value && COLUMNS.every((column) => totalOf(column) === 0);

function Column({ column }) {
  const list = columns.value[column.key];
  const total = totalOf(column);
  const ready = column.key === "ready";
  const mark = ready && dragging.value?.column === "ready" && dragging.value.place >= 0 ? dragging.value : null;
  const loading = useRef(false);
  const missing = !filtered.value && total > list.length && hasMore(column.statuses);
  const loadMore = async () => {
    if (!missing || loading.current) return;
    loading.current = true;
    await attempt(() => readMore(column.statuses));
    loading.current = false;
  };
  const draw = (task, index) => html`<${Card} key=${task.id} task=${task} drag=${dragFor(task)} index=${index} total=${total} />`;
  return html`<section class=${classes("column", column.key, !list.length && "empty", over(column))} aria-labelledby=${`column-${column.key}`} ...${dropsOn[column.key]}>
    <header>
      <h2 id=${`column-${column.key}`}>${column.name}</h2>
      <span class="count" aria-label=${plural(total, "task")}>${total}</span>
      <${Meaning} column=${column} />
    </header>
    <${Rows} name="cards" items=${list} draw=${draw} estimate=${GUESS} gap=${GAP} onEnd=${loadMore} tabindex=${list.length ? undefined : -1}
      before=${mark && html`<${DropMark} key="mark" mark=${mark} line=${list} />`}
      end=${endOf(column, list, missing)} />
  </section>`;
}

const dropsOn = Object.fromEntries(COLUMNS.map((column) => [column.key, dropOn(column)]));

function endOf(column, list, missing) {
  if (!list.length) return html`<li class="nothing">${filtered.value ? "Nothing fits the filter." : column.empty}</li>`;
  return missing && html`<li class="more">Loading more…</li>`;
}

const offered = (column) => {
  const task = dragging.value && tasks.value.get(dragging.value.id);
  return task && dropOf(task, column.key, lately.value);
};

/** While a card is dragged: whether this column accepts it. */
function over(column) {
  const found = offered(column);
  if (!found) return "";
  return classes(found.keys.length ? "can-drop" : found.why && "cannot-drop", dragging.value.column === column.key && "over");
}

function Meaning({ column }) {
  const found = offered(column);
  if (!found || dragging.value.column !== column.key) return null;
  const words = found.keys.length ? found.keys.map((key) => action(key).label).join(" / ") : found.why ? "Not possible" : "";
  return words && html`<span class="meaning">${words}</span>`;
}

// One object per task version, so that unchanged cards are not drawn again.
const drags = new WeakMap();
function dragFor(task) {
  if (!drags.has(task)) drags.set(task, dragOf(task));
  return drags.get(task);
}

/** A line at the drop position. */
function DropMark({ mark, line }) {
  const ref = useRef();
  const others = line.filter((task) => task.id !== mark.id);
  useEffect(() => {
    const cards = [...ref.current.parentElement.querySelectorAll(".card")];
    const beside = (task) => cards.find((card) => card.dataset.id === task?.id);
    const [below, above] = [beside(others[mark.place]), beside(others[mark.place - 1])];
    const top = below ? below.offsetTop - 5 : above ? above.offsetTop + above.offsetHeight + 3 : 0;
    ref.current.style.transform = `translateY(${top}px)`;
  });
  return html`<li class="drop-mark" ref=${ref} aria-hidden="true"></li>`;
}

function Placeholder() {
  const cards = [3, 2, 4, 3, 2, 4];
  return html`<div class="columns" aria-hidden="true">
    ${cards.map((count, index) => html`<div class="column" key=${index}><div class="ghost head"></div>${Array.from({ length: count }, (_, each) => html`<div class="ghost" key=${each}></div>`)}</div>`)}
  </div>`;
}

function Welcome() {
  const scope = counts.value?.scope ?? route.value.scope;
  return html`<div class="welcome">
    <h1>Nothing on the desk yet</h1>
    <p>Tasks that you add here, on the command line or by chat appear at once${scope ? html`, in the scope <b>${scope}</b>` : ""}.</p>
    <p class="actions">
      <button class="primary" onClick=${() => addTask()}>Add the first task</button>
      <button onClick=${() => go({ view: "chat" })}>Describe your tasks</button>
    </p>
    <pre><code>dibs add "My first task"</code></pre>
  </div>`;
}
