// Statuses, classes and events as people say them.

import { span } from "./time.js";

/** The columns, in the direction that work goes. */
export const COLUMNS = [
  { key: "aside", name: "Set aside", statuses: ["backlog", "paused"], empty: "Nothing is shelved or paused." },
  { key: "waiting", name: "Waiting", statuses: ["ready"], empty: "Nothing waits for other work." },
  { key: "ready", name: "Ready", statuses: ["ready"], empty: "Nothing to pick up right now." },
  { key: "work", name: "At work", statuses: ["active"], empty: "Nobody is at work." },
  { key: "needs", name: "Needs you", statuses: ["review", "escalated", "blocked"], empty: "Nothing needs a person." },
  { key: "finished", name: "Finished", statuses: ["done", "canceled"], empty: "Nothing is finished yet." },
];

const HOME = { backlog: "aside", paused: "aside", active: "work", done: "finished", canceled: "finished" };

/** Where a task stands at a moment, and the word for it: waiting, later and expired are derived from the time. */
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
  expired: "Lease ran out",
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
  blocks: ["waits for", "holds up"],
  feeds_into: ["gets results of", "hands results to"],
  parallel_ok: ["is independent of", "is independent of"],
};

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** A name for where there is little room. */
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
  block: "set it aside as blocked",
  unblock: "unblocked it",
  review: "handed it in for review",
  approve: "approved it",
  rework: "sent it back",
  cancel: "canceled it",
  release: "let it go",
  pause: "paused it",
  resume: "resumed it",
  queue: "put it up for work",
  shelve: "shelved it",
  reopen: "reopened it",
  escalate: "brought it before a person",
  link: "linked it",
  unlink: "took a link away",
  comment: "said",
  assign: "assigned it",
  import: "imported it",
};

/** An event as a sentence's parts: who, what, and what else there is to say. */
export function told(event) {
  const what = linkTold(event) ?? DONE[event.verb] ?? event.verb.replaceAll("_", " ");
  const tried = event.outcome === "lost" ? "came too late to " : event.outcome === "refused" ? "was refused: " : "";
  const wordless = tried ? `${tried}${event.verb}` : what;
  return { who: event.agent ?? "somebody", what: wordless, more: details(event) };
}

/** What a link says, instead of how it is stored. */
function linkTold({ verb, detail = {} }) {
  if (!detail.on || !KINDS[detail.kind]) return undefined;
  const gone = verb === "unlink" ? "took back that it " : "said that it ";
  return `${gone}${KINDS[detail.kind][0]} ${detail.on}`;
}

const SAID_ALREADY = new Set(["on", "kind"]);
const USUAL = { detected_by: "explicit", weight: 1, confidence: 1 };

function details(event) {
  const { detail = {}, reason, attempt, verb } = event;
  const isLink = linkTold(event) !== undefined;
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
  return `${label} ${isPlain(value) ? shown(value) : JSON.stringify(value)}`;
}

const isPlain = (value) => value === null || typeof value !== "object";
const shown = (value) => (value === null || value === "" ? "none" : String(value));
