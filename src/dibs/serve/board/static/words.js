// Names for statuses, classes and events.

import { span } from "./time.js";

/** The columns, in the order of the work. */
export const COLUMNS = [
  { key: "aside", name: "Set aside", statuses: ["backlog", "paused"], empty: "No task is in the backlog or paused." },
  { key: "waiting", name: "Waiting", statuses: ["ready"], empty: "Nothing waits for other work." },
  { key: "ready", name: "Ready", statuses: ["ready"], empty: "Nothing to pick up right now." },
  { key: "work", name: "At work", statuses: ["active"], empty: "No agent is at work." },
  { key: "needs", name: "Needs you", statuses: ["review", "escalated", "blocked"], empty: "Nothing needs a person." },
  { key: "finished", name: "Finished", statuses: ["done", "canceled"], empty: "Nothing is finished yet." },
];

const HOME = { backlog: "aside", paused: "aside", active: "work", done: "finished", canceled: "finished" };

/** The displayed status of a task at a time: waiting, later and expired are derived. */
export function standing(task, at) {
  if (task.status === "ready" && task.blockers) return "waiting";
  if (task.status === "ready" && task.not_before && Date.parse(task.not_before) > at) return "later";
  if (task.status === "active" && task.lease?.expires_at && Date.parse(task.lease.expires_at) <= at) return "expired";
  return task.status;
}

export function columnOf(task, at) {
  const word = standing(task, at);
  if (word === "waiting" || word === "later") return "waiting";
  return word === "ready" ? "ready" : HOME[task.status] ?? "needs";
}

export const STATUS = {
  backlog: "Backlog",
  ready: "Ready",
  waiting: "Waiting",
  later: "Not due yet",
  active: "At work",
  expired: "Lease expired",
  blocked: "Blocked",
  paused: "Paused",
  review: "In review",
  escalated: "Needs a decision",
  done: "Done",
  canceled: "Canceled",
};

export const CLASSES = {
  expedite: "Expedite",
  fixed_date: "Fixed date",
  standard: "Standard",
  intangible: "Intangible",
};

export const KINDS = {
  blocks: ["waits for", "blocks"],
  feeds_into: ["gets results of", "passes results to"],
  parallel_ok: ["is independent of", "is independent of"],
};

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** The initials of a name. */
export function initials(name) {
  const words = name.replace(/[^\p{L}\p{N}]+/gu, " ").trim().split(" ");
  return words.map((word) => [...word][0]).slice(0, 2).join("").toUpperCase();
}

export function waitsFor(task, at) {
  if (task.blockers) return `waits for ${task.blockers}`;
  return task.not_before ? `due in ${span(Date.parse(task.not_before) - at)}` : "";
}

const DONE = {
  add: "added it",
  edit: "changed it",
  claim: "claimed it",
  renew: "renewed the lease",
  done: "finished it",
  fail: "failed",
  exhaust: "failed; no retry is left",
  block: "blocked it",
  unblock: "unblocked it",
  review: "sent it to review",
  approve: "approved it",
  rework: "sent it back",
  cancel: "canceled it",
  release: "released it",
  pause: "paused it",
  resume: "resumed it",
  queue: "moved it to Ready",
  shelve: "moved it to the backlog",
  reopen: "reopened it",
  close: "finished it",
  escalate: "escalated it to a person",
  link: "linked it",
  unlink: "removed a link",
  comment: "commented",
  assign: "assigned it",
  import: "imported it",
};

/** An event as parts of a sentence: agent, action, details. */
export function described(event) {
  const what = describedLink(event) ?? DONE[event.verb] ?? event.verb.replaceAll("_", " ");
  const tried = event.outcome === "lost" ? "was too late to " : event.outcome === "refused" ? "was refused: " : "";
  const wordless = tried ? `${tried}${event.verb}` : what;
  return { who: event.agent ?? "unknown", what: wordless, more: details(event) };
}

/** A link event in words. */
function describedLink({ verb, detail = {} }) {
  if (!detail.on || !KINDS[detail.kind]) return undefined;
  const gone = verb === "unlink" ? "removed a link: it " : "added a link: it ";
  return `${gone}${KINDS[detail.kind][0]} ${detail.on}`;
}

const SAID_ALREADY = new Set(["on", "kind"]);
const USUAL = { detected_by: "explicit", weight: 1, confidence: 1 };

function details(event) {
  const { detail = {}, reason, attempt, verb } = event;
  const isLink = describedLink(event) !== undefined;
  const parts = verb === "claim" && attempt > 1 ? [`attempt ${attempt}`] : [];
  if (reason && verb !== "comment") parts.push(reason);
  for (const [name, value] of Object.entries(detail)) {
    if (!(isLink && SAID_ALREADY.has(name)) && USUAL[name] !== value) parts.push(detailed(name, value));
  }
  return parts.filter(Boolean).join(" · ");
}

function detailed(name, value) {
  const label = name.replaceAll("_", " ");
  if (value === true) return label;
  if (Array.isArray(value) && value.length === 2 && value.every(isPlain)) return `${label} ${shown(value[0])} → ${shown(value[1])}`;
  return `${label} ${listed(value)}`;
}

const isPlain = (value) => value === null || typeof value !== "object";
const listed = (value) =>
  isPlain(value) ? shown(value) : Array.isArray(value) ? value.map(listed).join(", ") || "none" : Object.entries(value).map(([name, each]) => `${name}: ${listed(each)}`).join(", ");
const shown = (value) => (value === null || value === "" ? "none" : String(value));
