// All tasks as rows: sorted by a column, grouped, and edited in place.

import { edited, named } from "./actions.js";
import { Filters } from "./filters.js";
import { Icon, Sign } from "./icons.js";
import { Holder } from "./lease.js";
import { adjust, linkTo, route } from "./route.js";
import { Pick, isSelected, onPick } from "./selection.js";
import { filtered, hasMore, inLine, loaded, passing, readMore } from "./store.js";
import { ago, exactly, lately } from "./time.js";
import { attempt } from "./toast.js";
import { classes, html, useLayoutEffect, useRef, useSignal } from "./ui.js";
import { Rows } from "./virtual.js";
import { STATUS, plural, standing } from "./words.js";

const HEIGHT = 38;

const text = (read) => (a, b) => String(read(a) ?? "\uffff").localeCompare(String(read(b) ?? "\uffff"));
const ORDER = Object.keys(STATUS);
const WORDS = Object.values(STATUS);
const holder = (task) => task.lease?.agent ?? task.assigned_to ?? task.finished_by;

/** Sort orders. */
const SORTS = {
  status: (a, b, at) => ORDER.indexOf(standing(a, at)) - ORDER.indexOf(standing(b, at)),
  title: text((task) => task.title),
  labels: text((task) => task.labels?.[0]),
  category: text((task) => task.category),
  agent: text(holder),
  priority: (a, b) => a.priority - b.priority,
  age: (a, b) => b.updated_at.localeCompare(a.updated_at),
};
const HEADS = { status: "Status", title: "Title", labels: "Labels", category: "Category", agent: "Agent", priority: "Priority", age: "Changed" };
const GROUPS = { status: "Status", agent: "Agent", label: "Label", category: "Category", parent: "Parent" };
const SOURCES = [["ready"], ["active", "review", "escalated", "blocked", "paused"], ["backlog"], ["done", "canceled"]];

function arranged(at) {
  const { sort = "", group } = route.value;
  const [name, down] = sort.startsWith("-") ? [sort.slice(1), true] : [sort, false];
  const list = inLine();
  if (SORTS[name]) list.sort((a, b) => (down ? -1 : 1) * SORTS[name](a, b, at));
  return GROUPS[group] ? grouped(list, group, at) : list;
}

/** Rows with a heading before each group; a task with two labels is in two groups. */
function grouped(list, group, at) {
  const titles = new Map(list.map((task) => [task.id, task.title]));
  const namesOf = {
    status: (task) => [STATUS[standing(task, at)]],
    agent: (task) => [holder(task)],
    label: (task) => task.labels ?? [],
    category: (task) => [task.category],
    parent: (task) => [task.parent && (titles.get(task.parent) ?? task.parent)],
  }[group];
  const groups = new Map();
  for (const task of list) {
    const names = namesOf(task).filter(Boolean);
    for (const name of names.length ? names : [""]) groups.set(name, [...(groups.get(name) ?? []), task]);
  }
  const order = [...groups.keys()].sort((a, b) => !a - !b || (group === "status" ? WORDS.indexOf(a) - WORDS.indexOf(b) : a.localeCompare(b)));
  return order.flatMap((name) => [{ id: `group ${name}`, heading: name || `No ${GROUPS[group].toLowerCase()}`, count: groups.get(name).length }, ...groups.get(name)]);
}

export function List() {
  const loading = useRef(false);
  if (!loaded.value) return html`<main class="list" aria-busy="true"></main>`;
  const at = lately.value;
  const items = arranged(at);
  const missing = SOURCES.filter(hasMore);
  const loadMore = async () => {
    if (!missing.length || loading.current) return;
    loading.current = true;
    await attempt(() => readMore(missing[0]));
    loading.current = false;
  };
  const lists = [items.filter((item) => !item.heading)];
  const draw = (item) => (item.heading ? html`<${Heading} key=${item.id} item=${item} />` : html`<${Row} key=${item.id} task=${item} lists=${lists} />`);
  return html`<main class="list">
    <h1 class="unseen">List</h1>
    <${Filters}><${Grouping} /></${Filters}>
    <div class="head" role="group" aria-label="Sort by">${Object.entries(HEADS).map(([name, label]) => html`<${Head} key=${name} name=${name} label=${label} />`)}</div>
    <${Rows} name="table-rows" items=${items} draw=${draw} estimate=${HEIGHT} onEnd=${filtered.value ? undefined : loadMore}
      end=${missing.length > 0 && html`<li class="more">${filtered.value ? html`<button onClick=${loadMore}>Load more tasks</button>` : "Loading more…"}</li>`} />
    ${!passing.value.length && html`<p class="nothing">${filtered.value ? "Nothing fits the filter." : "There are no tasks yet."}</p>`}
  </main>`;
}

function Head({ name, label }) {
  const { sort = "" } = route.value;
  const state = sort === name ? "ascending" : sort === `-${name}` ? "descending" : "";
  const next = state === "ascending" ? `-${name}` : state ? "" : name;
  return html`<button class=${classes("plain", `sort-${name}`, state)} aria-pressed=${Boolean(state)} aria-label=${`Sort by ${label.toLowerCase()}${state ? `, ${state}` : ""}`} onClick=${() => adjust({ sort: next })}>${label}${state && html`<span aria-hidden="true">${state === "ascending" ? " ↑" : " ↓"}</span>`}</button>`;
}

function Grouping() {
  const { group = "" } = route.value;
  return html`<select aria-label="Group by" class=${group ? "set" : ""} value=${group} onChange=${(event) => adjust({ group: event.currentTarget.value })}>
    <option value="">No groups</option>
    ${Object.entries(GROUPS).map(([key, label]) => html`<option key=${key} value=${key} selected=${key === group}>By ${label.toLowerCase()}</option>`)}
  </select>`;
}

const Heading = ({ item }) => html`<li class="heading" data-id=${item.id}><h2>${item.heading}</h2><span class="count" aria-label=${plural(item.count, "task")}>${item.count}</span></li>`;

function Row({ task, lists }) {
  const word = standing(task, lately.value);
  const name = holder(task);
  const renaming = useSignal(false);
  const rename = (event) => {
    if (event.key !== "F2" || ["done", "canceled"].includes(task.status)) return;
    event.preventDefault();
    renaming.value = true;
  };
  return html`<li class=${classes("row", word, route.value.task === task.id && "open", isSelected(task.id) && "selected")} data-id=${task.id} onClick=${(event) => onPick(event, task.id, lists)}>
    <${Pick} task=${task} />
    <span class="status"><${Sign} word=${word} alone=${true} /><span class="muted">${STATUS[word]}</span></span>
    <span class="what">${renaming.value
      ? html`<${Field} task=${task} name="title" label="Title" value=${task.title} done=${() => { renaming.value = false; }} />`
      : html`<a class="title" href=${linkTo({ task: task.id })} onKeyDown=${rename} title="F2 renames it">${task.title}</a><span class="id">${task.id}</span>`}</span>
    <${Cell} task=${task} name="labels" label="Labels" value=${(task.labels ?? []).join(", ")} />
    <${Cell} task=${task} name="category" label="Category" value=${task.category ?? ""} />
    <span class="by">${name && html`<${Holder} name=${name} human=${task.lease?.holder === "human"} />`}</span>
    <${Cell} task=${task} name="priority" label="Priority" value=${String(+task.priority.toFixed(2))} shown=${`P${+task.priority.toFixed(2)}`} />
    <time class="age muted" datetime=${task.updated_at} title=${exactly(task.updated_at)}>${ago(task.updated_at)}</time>
  </li>`;
}

const READ = {
  title: (typed) => typed.trim(),
  labels: (typed) => [...new Set(typed.split(",").map((part) => part.trim()).filter(Boolean))],
  category: (typed) => typed.trim() || null,
  priority: Number,
};

/** A value that becomes editable when clicked. */
function Cell({ task, name, label, value, shown = value }) {
  const editing = useSignal(false);
  if (["done", "canceled"].includes(task.status)) return html`<span class=${`cell cell-${name} muted`}>${shown}</span>`;
  if (editing.value) return html`<span class=${`cell cell-${name}`}><${Field} task=${task} name=${name} label=${label} value=${value} done=${() => { editing.value = false; }} /></span>`;
  return html`<button class=${`cell plain cell-${name}`} aria-label=${`${label} of ${task.title}: ${shown || "none"}. Edit`} onClick=${() => { editing.value = true; }}>${shown || html`<${Icon} name="plus" />`}</button>`;
}

/** Enter or leaving saves, Esc does not. */
function Field({ task, name, label, value, done }) {
  const box = useRef();
  const over = useRef(false);
  useLayoutEffect(() => { // before the next key press
    box.current.focus();
    box.current.select();
  }, []);
  const end = async (save) => {
    if (over.current) return;
    over.current = true;
    const typed = box.current.value;
    const row = box.current.closest("[data-id]");
    done();
    requestAnimationFrame(() => row?.querySelector(".title")?.focus({ preventScroll: true }));
    if (save && typed !== value && (await named())) await attempt(() => edited(task, { [name]: READ[name](typed) }));
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" || event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      end(event.key === "Enter");
    }
  };
  return html`<input ref=${box} class="inline" type=${name === "priority" ? "number" : "text"} step="any" aria-label=${`${label} of ${task.title}`} defaultValue=${value} onKeyDown=${onKeyDown} onBlur=${() => end(true)} />`;
}
