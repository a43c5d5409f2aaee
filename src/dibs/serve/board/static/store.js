// What is known of the desk, in one place. Views read it; only `refresh` and `learn` write it.

import { get, signInNeeded, taskPath } from "./server.js";
import { inOrder } from "./order.js";
import { route } from "./route.js";
import { lately, setClock } from "./time.js";
import { batch, computed, signal } from "./ui.js";
import { COLUMNS, columnOf } from "./words.js";

/** By id, of the scope in the address. A change makes a new map, so that whoever looks is told. */
export const tasks = signal(new Map());
export const counts = signal(null);
export const loaded = signal(false);
export const scopes = signal([]);

/** Rises with every change that the server has told: views that fetch for themselves look again. */
export const version = signal(0);

/** The same for changes after which the graph may have another shape. */
export const shape = signal(0);

const PAGES = [
  { status: "ready", limit: 300 },
  { status: "active,review,escalated,blocked,paused", limit: 500 },
  { status: "backlog", limit: 200 },
];
const RECENT_EVENTS = 400; // in which the latest finished tasks are looked for
const AT_ONCE = 150; // ids in one question

const more = signal({}); // by statuses, where the next page begins

/** Read all that is shown at first. Only the latest call counts: the scope may have changed meanwhile. */
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

/** Found by the events; where a store keeps none, the first of what is finished has to do. */
async function finishedLately() {
  const events = await get("/events", { last: RECENT_EVENTS }).then((found) => found.events, unlessUnsupported);
  if (!events) return get("/tasks", { status: "done,canceled", limit: AT_ONCE });
  const ended = events.filter((event) => ["done", "canceled"].includes(event.target) && event.task);
  return byIds([...new Set(ended.map((event) => event.task).reverse())].slice(0, AT_ONCE));
}

function unlessUnsupported(error) {
  if (error.code !== "UNSUPPORTED") throw error;
}

/** Those of these tasks that are there. A list of ids has commas between them, so one that has a comma is asked for alone. */
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

/** Look again at these tasks, and at those that wait for them where that may have changed. */
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

/** Put tasks in the place of what was known of them; what was asked for and is not there is gone. */
export function take(found, asked = []) {
  const next = new Map(tasks.value);
  for (const id of asked) next.delete(id);
  for (const task of found) next.set(task.id, task);
  tasks.value = next;
}

export async function readScopes() {
  scopes.value = (await get("/scopes")).scopes;
}

/** The next page of what a column is made of. */
export async function readMore(statuses) {
  const page = PAGES.find((each) => each.status.split(",").includes(statuses[0]));
  if (!page) return readOlder(statuses);
  const answer = await get("/tasks", { ...page, cursor: more.value[page.status] });
  more.value = { ...more.value, [page.status]: answer.next };
  take(answer.tasks);
}

async function readOlder(statuses) {
  const key = statuses.join(",");
  const answer = await get("/tasks", { status: key, limit: 200, cursor: more.value[key] });
  more.value = { ...more.value, [key]: answer.next };
  take(answer.tasks);
}

/** Matches that were not loaded yet. */
export async function readMatches(text) {
  if (counts.value && total(counts.value) > tasks.value.size) take((await get("/tasks", { text, limit: 200 })).tasks);
}

const total = (all) => Object.values(all.by_status).reduce((sum, count) => sum + count, 0);

// What the filters let through

const filters = computed(() => {
  const { text = "", agent, category } = route.value;
  return { words: text.toLowerCase().split(/\s+/).filter(Boolean), agent, category };
});

function lets(task, { words, agent, category }) {
  if (category && task.category !== category) return false;
  if (agent && ![task.lease?.agent, task.assigned_to, task.finished_by].includes(agent)) return false;
  if (!words.length) return true;
  const said = `${task.id} ${task.title} ${task.description ?? ""} ${task.category ?? ""} ${task.deliverable ?? ""} ${(task.labels ?? []).join(" ")} ${task.lease?.agent ?? ""}`.toLowerCase();
  return words.every((word) => said.includes(word));
}

export const filtered = computed(() => Boolean(filters.value.words.length || filters.value.agent || filters.value.category));

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

/** How many there are of a column in all, loaded or not; with a filter, how many are shown. */
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
export const categories = computed(() => distinct([...tasks.value.values()].map((task) => task.category)));
