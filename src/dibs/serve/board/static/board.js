// The columns.

import { dragOf, dragging, dropTarget } from "./arranging.js";
import { Card } from "./card.js";
import { Filters } from "./filters.js";
import { go, route } from "./route.js";
import { columns, counts, filtered, loaded, readMore, totalOf } from "./store.js";
import { addTask } from "./taskform.js";
import { attempt } from "./toast.js";
import { classes, html, useEffect, useRef, useSignal } from "./ui.js";
import { COLUMNS, plural } from "./words.js";

const PAGE = 40; // cards of a column that are drawn at first, and with each step towards its end

export function Board() {
  if (!loaded.value) return html`<main class="board" aria-busy="true"><${Placeholder} /></main>`;
  if (isBare()) return html`<main class="board"><${Welcome} /></main>`;
  return html`<main class="board">
    <h1 class="unseen">Board</h1>
    <${Filters} />
    <div class="columns" ref=${narrow}>${COLUMNS.map((column) => html`<${Column} key=${column.key} column=${column} />`)}</div>
  </main>`;
}

/** Where only one column has room, begin with what is ready. */
function narrow(columns) {
  if (columns && columns.clientWidth < 700) columns.scrollLeft = columns.querySelector(".ready").offsetLeft - 12;
}

const isBare = () => !filtered.value && COLUMNS.every((column) => totalOf(column) === 0);

function Column({ column }) {
  const shown = useSignal(PAGE);
  const list = columns.value[column.key];
  const total = totalOf(column);
  const ready = column.key === "ready";
  const mark = ready && dragging.value ? dragging.value : null;
  const drawn = list.slice(0, shown.value);
  return html`<section class=${classes("column", column.key, !list.length && "empty")} aria-labelledby=${`column-${column.key}`}>
    <header>
      <h2 id=${`column-${column.key}`}>${column.name}</h2>
      <span class="count" aria-label=${plural(total, "task")}>${total}</span>
    </header>
    <ul class="cards" ...${ready ? dropTarget : {}} tabindex=${list.length ? undefined : -1}>
      ${drawn.map((task) => html`<${Card} key=${task.id} task=${task} drag=${ready ? dragFor(task) : null} />`)}
      ${mark && mark.place >= 0 && html`<${DropMark} key="mark" mark=${mark} line=${list} />`}
      ${!list.length && html`<li class="nothing">${filtered.value ? "Nothing fits the filter." : column.empty}</li>`}
      <${More} key="more" column=${column} list=${list} shown=${shown} total=${total} />
    </ul>
  </section>`;
}

// One object per task as long as the task is the same: else every card would be drawn again.
const drags = new WeakMap();
function dragFor(task) {
  if (!drags.has(task)) drags.set(task, dragOf(task));
  return drags.get(task);
}

/** A line where the card would go, put beside its neighbour by the grid's own order. */
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

/** The rest of a long column: what is loaded comes as one scrolls, what is not by asking for it. */
function More({ column, list, shown, total }) {
  const end = useRef();
  useEffect(() => {
    if (!end.current) return undefined;
    const watcher = new IntersectionObserver(([entry]) => {
      if (entry.isIntersecting) shown.value += PAGE;
    }, { root: end.current.parentElement, rootMargin: "600px" });
    watcher.observe(end.current);
    return () => watcher.disconnect();
  });
  if (list.length > shown.value) return html`<li class="more" ref=${end}>…</li>`;
  if (filtered.value || total <= list.length) return null;
  const load = () => attempt(() => readMore(column.statuses));
  return html`<li class="more"><button onClick=${load}>Show more of ${total}</button></li>`;
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
      <button onClick=${() => go({ view: "chat" })}>Say what is to be done</button>
    </p>
    <pre><code>dibs add "My first task"</code></pre>
  </div>`;
}
