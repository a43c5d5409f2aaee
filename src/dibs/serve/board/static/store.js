// The data of the desk. Views read it; only `refresh` and `learn` write it.

import { get, signInNeeded, taskPath } from "./server.js";
import { inOrder } from "./order.js";
import { route } from "./route.js";
import { lately, setClock } from "./time.js";
import { batch, computed, signal } from "./ui.js";
import { COLUMNS, columnOf } from "./words.js";

/** Tasks of the current scope by id. A change makes a new map, which notifies the views. */
export const tasks = signal(new Map());
export const counts = signal(null);
export const loaded = signal(false);
export const scopes = signal([]);
export const project = signal("");

/** Rises with every change, so that views with their own data read again. */
export const version = signal(0);

/** Rises with changes that may affect the shape of the graph. */
export const shape = signal(0);

const PAGES = [
  { status: "ready", limit: 300 },
  { status: "active,review,escalated,blocked,paused", limit: 500 },
  { status: "backlog", limit: 200 },
];
const RECENT_EVENTS = 400; // searched for the latest finished tasks
const MORE = 500; // tasks of a further page
const AT_ONCE = 150; // ids in one request

const more = signal({}); // statuses: cursor of the next page

/** Read the first pages. Only the latest call counts, since the scope may change. */
let reading = 0;
export async function refresh() {
  const mine = ++reading;
  const [totals, ...pages] = await Promise.all([
    get("/counts"),
    ...PAGES.map((page) => get("/tasks", page)),
    finishedLately(),
  ]);
  if (mine !== reading) return;
  batch(() => {
    setCounts(totals);
    more.value = Object.fromEntries(PAGES.map((page, index) => [page.status, pages[index].next]));
    tasks.value = new Map(pages.flatMap((page) => page.tasks).map((task) => [task.id, task]));
    loaded.value = true;
    signInNeeded.value = false;
    version.value += 1;
    shape.value += 1;
  });
}

/** The latest finished tasks, from the events; without events, the first page of finished tasks. */
async function finishedLately() {
  const events = await get("/events", { last: RECENT_EVENTS }).then((found) => found.events, unlessUnsupported);
  if (!events) return get("/tasks", { status: "done,canceled", limit: AT_ONCE });
  const ended = events.filter((event) => ["done", "canceled"].includes(event.target) && event.task);
  return byIds([...new Set(ended.map((event) => event.task).reverse())].slice(0, AT_ONCE));
}

function unlessUnsupported(error) {
  if (error.code !== "UNSUPPORTED") throw error;
}

/** The tasks of these ids that exist. Ids are separated by commas, so an id with a comma is read alone. */
async function byIds(ids, query = {}) {
  const listed = ids.filter((id) => !id.includes(","));
  const answers = await Promise.all([
    listed.length ? get("/tasks", { ids: listed.join(","), ...query }) : { tasks: [] },
    ...ids.filter((id) => id.includes(",")).map(alone),
  ]);
  return { tasks: answers.flatMap((answer) => answer.tasks) };
}

async function alone(id) {
  try {
    return { tasks: [(await get(taskPath(id))).task] };
  } catch (error) {
    if (error.status === 404) return { tasks: [] };
    throw error;
  }
}

function setCounts(totals) {
  counts.value = totals;
  setClock(totals.now);
}

/** Read these tasks again, and their dependents if those may have changed. */
export async function learn(ids, { dependents = false } = {}) {
  const asked = [...ids];
  const mine = reading;
  const query = dependents ? { dependents: 1 } : {};
  const parts = [];
  for (let start = 0; start < asked.length; start += AT_ONCE) parts.push(asked.slice(start, start + AT_ONCE));
  const [totals, ...answers] = await Promise.all([get("/counts"), ...parts.map((part) => byIds(part, query))]);
  if (mine !== reading) return;
  batch(() => {
    setCounts(totals);
    take(answers.flatMap((answer) => answer.tasks), asked);
    version.value += 1;
    if (dependents) shape.value += 1;
  });
}

/** Store tasks; remove requested ones that no longer exist. */
export function take(found, asked = []) {
  const next = new Map(tasks.value);
  for (const id of asked) next.delete(id);
  for (const task of found) next.set(task.id, task);
  tasks.value = next;
}

export async function readScopes() {
  const found = await get("/scopes");
  batch(() => {
    scopes.value = found.scopes;
    project.value = found.project ?? "";
  });
}

const keyOf = (statuses) => PAGES.find((page) => page.status.split(",").includes(statuses[0]))?.status ?? statuses.join(",");

/** Whether a column may have unread tasks. */
export const hasMore = (statuses) => more.value[keyOf(statuses)] !== null;

/** Read the next page of a column. */
export async function readMore(statuses) {
  const [key, mine] = [keyOf(statuses), reading];
  if (more.value[key] === null) return;
  const answer = await get("/tasks", { status: key, limit: MORE, cursor: more.value[key] });
  if (mine !== reading) return;
  batch(() => {
    more.value = { ...more.value, [key]: answer.next };
    take(answer.tasks);
  });
}

/** Load further matches of the search. */
export async function readMatches(text) {
  if (counts.value && total(counts.value) > tasks.value.size) take((await get("/tasks", { text, limit: 200 })).tasks);
}

const total = (all) => Object.values(all.by_status).reduce((sum, count) => sum + count, 0);

// Filters

const HOUR = { hours: 1, within: true };

/** Filters by the time of the last change. */
export const AGES = {
  "1h": { ...HOUR, name: "Changed in the last hour" },
  "1d": { ...HOUR, hours: 24, name: "Changed in the last day" },
  "7d": { ...HOUR, hours: 168, name: "Changed in the last week" },
  "-1d": { hours: 24, within: false, name: "Unchanged for a day" },
  "-7d": { hours: 168, within: false, name: "Unchanged for a week" },
};

const filters = computed(() => {
  const { text = "", agent, category, label, age } = route.value;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return { words, agent, category, label, age: AGES[age], at: AGES[age] ? lately.value : 0 };
});

function lets(task, { words, agent, category, label, age, at }) {
  if (category && task.category !== category) return false;
  if (label && !task.labels?.includes(label)) return false;
  if (age && (at - Date.parse(task.updated_at) <= age.hours * 3_600_000) !== age.within) return false;
  if (agent && ![task.lease?.agent, task.assigned_to, task.finished_by].includes(agent)) return false;
  if (!words.length) return true;
  const said = `${task.id} ${task.title} ${task.description ?? ""} ${task.category ?? ""} ${task.deliverable ?? ""} ${(task.labels ?? []).join(" ")} ${task.lease?.agent ?? ""}`.toLowerCase();
  return words.every((word) => said.includes(word));
}

export const filtered = computed(() => {
  const { words, agent, category, label, age } = filters.value;
  return Boolean(words.length || agent || category || label || age);
});

export const passing = computed(() => {
  const asked = filters.value;
  return [...tasks.value.values()].filter((task) => lets(task, asked));
});

const newestFirst = (a, b) => (b.finished_at ?? b.updated_at).localeCompare(a.finished_at ?? a.updated_at);
const NEEDS = { escalated: 0, review: 1, blocked: 2 };
const SORTS = {
  finished: newestFirst,
  needs: (a, b) => NEEDS[a.status] - NEEDS[b.status] || inOrder(a, b),
};

/** The tasks of each column, in order. */
export const columns = computed(() => {
  const at = lately.value;
  const held = Object.fromEntries(COLUMNS.map((column) => [column.key, []]));
  for (const task of passing.value) held[columnOf(task, at)].push(task);
  for (const [key, list] of Object.entries(held)) list.sort(SORTS[key] ?? inOrder);
  return held;
});

/** The tasks that pass the filters, column by column in order. */
export const inLine = () => COLUMNS.flatMap((column) => columns.value[column.key]);

/** The size of a column, loaded or not; with a filter, the number shown. */
export function totalOf(column) {
  const here = columns.value[column.key].length;
  const all = counts.value;
  if (!all || filtered.value) return here;
  if (column.key === "waiting") return Math.max(here, all.waiting + (all.later ?? 0));
  const ready = (all.by_status.ready ?? 0) - all.waiting - (all.later ?? 0);
  if (column.key === "ready") return Math.max(here, ready);
  return column.statuses.reduce((sum, status) => sum + (all.by_status[status] ?? 0), 0);
}

const distinct = (values) => [...new Set(values.filter(Boolean))].sort((a, b) => a.localeCompare(b));
export const agentNames = computed(() =>
  distinct([...tasks.value.values()].flatMap((task) => [task.lease?.agent, task.assigned_to, task.finished_by])),
);
export const labels = computed(() => distinct([...tasks.value.values()].flatMap((task) => task.labels ?? [])));
export const categories = computed(() => distinct([...tasks.value.values()].map((task) => task.category)));
