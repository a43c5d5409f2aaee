// The actions on one or many tasks, by status. The server decides; the board shows its refusals unchanged.

import { callMe, myName, patch, post, remove, taskPath } from "./server.js";
import { ask } from "./dialog.js";
import { kept } from "./kept.js";
import { agentNames, learn, take, tasks } from "./store.js";
import { attempt, complain, say } from "./toast.js";
import { batch } from "./ui.js";
import { KINDS, plural, standing } from "./words.js";

const holds = kept("holds", {}, "sessionStorage"); // task: token of its lease, for tasks held in this window

/** The user's name, as others see it. The board asks for it once. */
export async function named() {
  if (myName.value) return myName.value;
  await ask({
    title: "What is your name?",
    text: "Others see it with your actions. It is not a login, and you can change it at any time.",
    fields: [{ name: "name", label: "Name", required: true, most: 100 }],
    confirm: "Save",
    submit: ({ name }) => callMe(name),
  });
  return myName.value;
}

// Moves and edits

/** A move of the lifecycle, with the lease token if this window has it, else with force as a person. */
async function moved(task, verb, said = {}) {
  const body = { ...said };
  if (task.lease) {
    if (holds.value[task.id]) body.token = holds.value[task.id];
    else body.force = true;
  }
  const answer = await post(taskPath(task.id, verb), body);
  batch(() => {
    forget(task.id);
    take([answer.task]);
  });
  return answer.task;
}

function forget(id) {
  const { [id]: gone, ...rest } = holds.value;
  if (gone) holds.value = rest;
}

export async function edited(task, changes) {
  const { task: now } = await patch(taskPath(task.id), changes);
  take([now]);
  return now;
}

async function hold(task, force = false) {
  const { claimed } = await post("/claims", { agent: myName.value, ids: [task.id], holder: "human", ...(force ? { force } : {}) });
  batch(() => {
    for (const each of claimed) holds.value = { ...holds.value, [each.task.id]: each.token };
    take(claimed.map((each) => each.task));
  });
  return claimed[0].task;
}

/** Finish a task as a person in one step; an agent's task is taken over first. */
async function finished(task, said) {
  if (!task.lease) return moved(task, "close", said);
  return moved(holds.value[task.id] ? task : await hold(task, standing(task, Date.now()) !== "expired"), "done", said);
}

async function waiting(task, { on = [] }) {
  const links = on.map((each) => ({ task: task.id, on: each, kind: "blocks" }));
  if (links.length) await post("/links", { links });
  await learn([task.id, ...on]);
  return { ...tasks.value.get(task.id), made: links };
}

const move = (verb) => (task, { reason, ...said }) => moved(task, verb, { ...said, ...(reason ? { reason } : {}) });
const place = (status) => (task) => edited(task, { status });
const noted = ({ note }) => (note ? { result: { note } } : {});

// The actions

const reason = (label, required = false) => ({ name: "reason", label, kind: "area", rows: 3, required });
const NOTE = { name: "note", label: "What is the result? (optional)", kind: "area", rows: 3 };
const DEPENDENTS = {
  name: "dependents",
  label: "Tasks that wait for it",
  kind: "choice",
  value: "escalate",
  options: [["escalate", "ask a person to decide"], ["resolve", "go ahead without it"], ["cascade", "are canceled too"]],
};
const listed = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);
const isOpen = (task) => !["done", "canceled"].includes(task.status);

/** Whether an action takes the task from its holder, and so needs a confirmation. */
const disturbs = (task) => Boolean(task.lease) && !holds.value[task.id] && standing(task, Date.now()) !== "expired";

const ACTIONS = {
  approve: { label: "Approve", past: "Approved", apply: move("approve") },
  rework: { label: "Send back", past: "Sent back", fields: [reason("What has to be done?", true)], apply: move("rework") },
  unblock: { label: "Unblock", past: "Unblocked", apply: move("unblock") },
  resume: { label: "Resume", past: "Resumed", apply: move("resume") },
  queue: { label: "Move to Ready", past: "Moved to Ready:", apply: place("ready") },
  claim: { label: "Claim it", past: "You hold", apply: (task) => hold(task) },
  takeOver: { label: "Take over", past: "You hold", confirms: () => true, apply: (task) => hold(task, true) },
  done: { label: "Done", past: "Finished", fields: [NOTE], apply: (task, said) => moved(task, "done", noted(said)) },
  finish: { label: "Finish it myself", past: "Finished", fields: [NOTE], apply: (task, said) => finished(task, noted(said)) },
  review: { label: "Send to review", past: "Sent to review:", fields: [reason("What should the reviewer look at? (optional)")], apply: move("review") },
  release: { label: "Release", past: "Released", confirms: disturbs, apply: move("release") },
  first: { label: "Put first", past: "Put first:", apply: (task) => edited(task, { override: true }) },
  notFirst: { label: "No longer first", past: "No longer first:", apply: (task) => edited(task, { override: false }) },
  due: { label: "Make it due now", past: "Due now:", apply: (task) => edited(task, { not_before: null }) },
  shelve: { label: "Move to backlog", past: "Moved to the backlog:", apply: place("backlog") },
  pause: { label: "Pause", past: "Paused", confirms: disturbs, apply: move("pause") },
  block: { label: "Block", past: "Blocked", fields: [reason("What blocks it?", true)], apply: move("block") },
  cancel: { label: "Cancel", past: "Canceled", danger: true, confirm: "Cancel the task", keep: "Keep it", fields: [reason("Why? (optional)"), DEPENDENTS], apply: move("cancel") },
  reopen: { label: "Reopen", past: "Reopened", apply: move("reopen") },
  waits: { label: "Wait for…", past: "Linked", fields: [{ name: "on", label: "Waits for", kind: "tasks" }], apply: waiting },
  assign: {
    label: "Assign…", past: "Assigned", fields: [{ name: "agent", label: "Only for this agent (empty: for any)", options: () => agentNames.value }],
    apply: (task, { agent }) => edited(task, { assigned_to: agent || null }),
  },
  label: {
    label: "Add labels…", past: "Labeled", fields: [{ name: "labels", label: "Labels", required: true, hint: "Separate them with commas." }],
    apply: (task, { labels }) => edited(task, { labels: [...new Set([...(task.labels ?? []), ...listed(labels)])] }),
  },
  priority: {
    label: "Set priority…", past: "Changed the priority of", fields: [{ name: "priority", label: "Priority", kind: "number", required: true, value: 2, hint: "Lower comes first." }],
    apply: (task, { priority }) => edited(task, { priority: Number(priority) }),
  },
};

const REST = ["pause", "block", "cancel"];
const EDITS = ["waits", "assign", "label", "priority"];
const BY_STANDING = {
  backlog: ["queue", "takeOver", ...REST],
  ready: ["claim", "first", "shelve", "finish", ...REST],
  waiting: ["first", "takeOver", "shelve", ...REST],
  later: ["first", "due", "takeOver", "shelve", ...REST],
  active: ["takeOver", "release", ...REST],
  expired: ["claim", "release", ...REST],
  human: ["done", "release", "review", ...REST],
  review: ["approve", "rework", "takeOver", "pause", "cancel"],
  escalated: ["unblock", "takeOver", "finish", ...REST],
  blocked: ["unblock", "takeOver", "finish", "pause", "cancel"],
  paused: ["resume", "takeOver", "cancel"],
  canceled: ["reopen"],
  done: ["reopen"],
};

/** The row of a task in the tables of actions and drops; tasks held by a person have their own. */
export const placeOf = (task, at) => (task.lease?.holder === "human" ? "human" : standing(task, at));

export const action = (key) => ({ key, ...ACTIONS[key] });

/** The possible actions for a task, the most likely first. */
export function actionsFor(task, at) {
  const keys = BY_STANDING[placeOf(task, at)].map((key) => (key === "first" && task.override ? "notFirst" : key));
  return [...keys, ...(isOpen(task) ? EDITS : [])].map(action);
}

/** The actions that at least one of these tasks allows, the most common first, each with its tasks. */
export function commonActions(list, at) {
  const found = new Map();
  for (const task of list) {
    for (const each of actionsFor(task, at)) {
      if (!found.has(each.key)) found.set(each.key, { ...each, fits: [] });
      found.get(each.key).fits.push(task);
    }
  }
  return [...found.values()].sort((a, b) => b.fits.length - a.fits.length);
}

// Performing actions

/** Perform an action on one or many tasks: ask for its fields, report the outcome, offer to undo it. */
export async function perform(key, list) {
  const chosen = ACTIONS[key];
  if (!list.length || !(await named())) return undefined;
  const asks = chosen.fields || list.some((task) => chosen.confirms?.(task));
  if (!asks) return attempt(() => carriedOut(chosen, list, {}));
  return ask({ ...question(key, list), submit: (values) => carriedOut(chosen, list, values) });
}

export const act = ({ key }, task) => perform(key, [task]);

const subject = (list) => (list.length === 1 ? list[0].id : plural(list.length, "task"));

function question(key, list) {
  const chosen = ACTIONS[key];
  const fields = (chosen.fields ?? []).map((field) => ({ ...field, options: typeof field.options === "function" ? field.options() : field.options }));
  const title = `${chosen.label.replace("…", "")}: ${subject(list)}`;
  return { title, text: consequence(key, list), fields, confirm: chosen.confirm ?? chosen.label.replace("…", ""), cancel: chosen.keep, danger: chosen.danger };
}

function consequence(key, list) {
  if (list.length > 1) return list.slice(0, 5).map((task) => task.title).join(" · ") + (list.length > 5 ? ` · and ${list.length - 5} more` : "");
  const [task] = list;
  if (!disturbs(task)) return key === "takeOver" && task.blockers ? `${task.title} · It still waits for ${plural(task.blockers, "unfinished task")}.` : task.title;
  const holder = task.lease.agent;
  return `${holder} is at work on it. Later writes of ${holder} for this attempt are rejected.`;
}

const AT_ONCE = 4; // requests of one action on many tasks

/** Apply an action to each task. With one task, throw a refusal; with many, count refusals. */
async function carriedOut(chosen, list, values) {
  if (list.length === 1) {
    const after = await chosen.apply(list[0], values);
    return report(chosen, [[list[0], after]]);
  }
  const [waitingFor, pairs, refusals] = [[...list], [], []];
  const worker = async () => {
    for (let task = waitingFor.shift(); task; task = waitingFor.shift()) {
      try {
        pairs.push([task, await chosen.apply(task, values)]);
      } catch (error) {
        refusals.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  if (pairs.length) report(chosen, pairs);
  if (refusals.length) complain(new Error(`${plural(refusals.length, "task was", "tasks were")} not changed. ${refusals[0].message}`));
  return pairs;
}

function report(chosen, pairs) {
  const back = pairs.map(([before, after]) => wayBack(before, after));
  const run = () => attempt(() => undone(pairs, back));
  const what = pairs.length === 1 && pairs[0][1].made?.length ? waits(pairs[0]) : `${chosen.past} ${subject(pairs.map(([before]) => before))}.`;
  say(what, back.every(Boolean) ? { action: { label: "Undo", run } } : {});
  return pairs;
}

const waits = ([before, after]) => `${before.id} ${KINDS.blocks[0]} ${after.made.map((link) => link.on).join(", ")}.`;

// Undo

const TO_READY = { active: "release", backlog: "queue", blocked: "unblock", escalated: "unblock", canceled: "reopen", done: "reopen", ready: "" };
const FROM_READY = { ready: [], backlog: ["shelve"], blocked: ["block"], paused: ["pause"] };
const EDITED = ["override", "not_before", "assigned_to", "labels", "priority"];

/** The steps that restore a task, or null if none do: an ended attempt cannot be restored. */
function wayBack(before, after) {
  if (after.made) return after.made.length ? ["unlink"] : null;
  if (before.status === after.status) return before.attempt === after.attempt ? ["edit"] : null;
  if (after.status === "paused") return ["resume"];
  const [open, close] = [TO_READY[after.status], FROM_READY[before.status]];
  return open === undefined || close === undefined ? null : [open, ...close].filter(Boolean);
}

async function undone(pairs, ways) {
  for (const [index, [before, after]] of pairs.entries()) {
    for (const step of ways[index]) await stepBack(step, before, after);
  }
  say(`Undone: ${subject(pairs.map(([before]) => before))}.`);
}

async function stepBack(step, before, after) {
  const task = tasks.value.get(before.id) ?? after;
  if (step === "unlink") {
    await remove("/links", { links: after.made });
    return learn([before.id, ...after.made.map((link) => link.on)]);
  }
  if (step === "edit") return edited(task, Object.fromEntries(EDITED.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name])).map((name) => [name, before[name] ?? (name === "labels" ? [] : name === "override" ? false : null)])));
  if (step === "queue" || step === "shelve") return edited(task, { status: step === "queue" ? "ready" : "backlog" });
  const said = step === "block" ? { reason: before.reason ?? "Blocked before", unblock_action: before.unblock_action, next_check_at: before.next_check_at } : step === "pause" ? { reason: before.reason } : {};
  return moved(task, step, Object.fromEntries(Object.entries(said).filter(([, value]) => value)));
}
