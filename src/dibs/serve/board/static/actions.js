// What a person can do to a task, by where it stands. The server decides; what it refuses is shown in its own words.

import { callMe, myName, patch, post, taskPath } from "./server.js";
import { ask } from "./dialog.js";
import { kept } from "./kept.js";
import { take } from "./store.js";
import { attempt, say } from "./toast.js";
import { batch } from "./ui.js";
import { standing } from "./words.js";

const holds = kept("holds", {}, "sessionStorage"); // the tokens of what this person holds in this window

/** A name that others see. It is asked for once. */
export async function named() {
  if (myName.value) return myName.value;
  await ask({
    title: "What is your name?",
    text: "Others see it beside what you do here. It proves nothing, and you can change it at any time.",
    fields: [{ name: "name", label: "Name", required: true, most: 100 }],
    confirm: "That is me",
    submit: ({ name }) => callMe(name),
  });
  return myName.value;
}

/** A move of the lifecycle. Who holds the task shows the token, if this window has it; else a person overrules. */
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
  return answer;
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
  const agent = await named();
  if (!agent) return;
  const { claimed } = await post("/claims", { agent, ids: [task.id], holder: "human", ...(force ? { force } : {}) });
  batch(() => {
    for (const each of claimed) {
      holds.value = { ...holds.value, [each.task.id]: each.token };
      take([each.task]);
    }
  });
  say(`You hold ${task.id} now. No agent gets it until you let go.`, {
    action: { label: "Let go", run: () => attempt(() => moved(claimed[0].task, "release")) },
  });
}

function takeOver(task) {
  const holder = task.lease?.agent;
  const why = holder
    ? `${holder} is at work on it. What ${holder} says about it from now on is refused.`
    : `It is ${standing(task, Date.now())}. As a person you may take it all the same.`;
  return ask({ title: `Take ${task.id} over?`, text: why, confirm: "Take it over", submit: () => hold(task, true) });
}

const reason = (label, required = false) => ({ name: "reason", label, kind: "area", rows: 3, required });

/** A move for which a sentence is wanted first. */
const asked = (verb, title, confirm, label, required, extra = []) => (task) =>
  ask({
    title: `${title} ${task.id}?`,
    text: disturbed(task),
    fields: [reason(label, required), ...extra],
    confirm,
    submit: ({ reason: why, ...rest }) => moved(task, verb, { ...rest, ...(why ? { reason: why } : {}) }),
  });

const disturbed = (task) =>
  task.lease?.holder === "agent" ? `${task.lease.agent} is at work on it, and is told to stop with its next word.` : task.title;

function cancel(task) {
  return ask({
    title: `Cancel ${task.id}?`,
    text: disturbed(task),
    danger: true,
    confirm: "Cancel the task",
    cancel: "Keep it",
    fields: [
      reason("Why? (optional)"),
      {
        name: "dependents",
        label: "What waits for it",
        kind: "choice",
        value: "escalate",
        options: [
          ["escalate", "is brought before a person"],
          ["resolve", "goes ahead without it"],
          ["cascade", "is canceled too"],
        ],
      },
    ],
    submit: async ({ reason: why, dependents }) => {
      const { task: now } = await moved(task, "cancel", { dependents, ...(why ? { reason: why } : {}) });
      say(`Canceled ${task.id}.`, { action: { label: "Reopen it", run: () => attempt(() => moved(now, "reopen")) } });
    },
  });
}

function finish(task) {
  return ask({
    title: `Finish ${task.id}?`,
    text: task.title,
    fields: [{ name: "note", label: "What came of it? (optional)", kind: "area", rows: 3 }],
    confirm: "It is done",
    submit: ({ note }) => moved(task, "done", note ? { result: { note } } : {}),
  });
}

const simply = (verb, words) => async (task) => {
  await moved(task, verb);
  say(`${words} ${task.id}.`);
};

async function pause(task) {
  if (task.lease?.holder === "agent") return PAUSE_ASKED(task);
  const { task: now } = await moved(task, "pause");
  say(`Paused ${task.id}.`, { action: { label: "Resume", run: () => attempt(() => moved(now, "resume")) } });
}
const PAUSE_ASKED = asked("pause", "Pause", "Pause it", "Why? (optional)", false);

const first = (task) => edited(task, { override: !task.override });
const placeIn = (status) => (task) => edited(task, { status });

const ACTIONS = {
  approve: { label: "Approve", run: simply("approve", "Approved") },
  rework: { label: "Send back", run: asked("rework", "Send back", "Send it back", "What is to be done?", true) },
  unblock: { label: "Unblock", run: simply("unblock", "Unblocked") },
  goOn: { label: "Let it go on", run: simply("unblock", "Goes on:") },
  resume: { label: "Resume", run: simply("resume", "Resumed") },
  queue: { label: "Put up for work", run: placeIn("ready") },
  hold: { label: "Hold it myself", run: (task) => hold(task) },
  takeOver: { label: "Take it over", run: takeOver },
  done: { label: "Done", run: finish },
  review: { label: "Hand in for review", run: asked("review", "Hand in", "Hand it in", "What is to be looked at? (optional)", false) },
  release: { label: "Let go", run: simply("release", "Let go of") },
  first: { label: "Put first", run: first },
  notFirst: { label: "No longer first", run: first },
  shelve: { label: "Shelve", run: placeIn("backlog") },
  pause: { label: "Pause", run: pause },
  block: { label: "Set aside as blocked", run: asked("block", "Set aside", "It is blocked", "What stands in its way?", true) },
  cancel: { label: "Cancel", run: cancel, danger: true },
  reopen: { label: "Reopen", run: simply("reopen", "Reopened") },
};

const REST = ["pause", "block", "cancel"];
const BY_STANDING = {
  backlog: ["queue", "takeOver", ...REST],
  ready: ["hold", "first", "shelve", ...REST],
  waiting: ["first", "takeOver", "shelve", ...REST],
  later: ["first", "takeOver", "shelve", ...REST],
  active: ["takeOver", ...REST],
  expired: ["hold", ...REST],
  human: ["done", "release", "review", ...REST],
  review: ["approve", "rework", "takeOver", "pause", "cancel"],
  escalated: ["goOn", "takeOver", ...REST],
  blocked: ["unblock", "takeOver", "pause", "cancel"],
  paused: ["resume", "takeOver", "cancel"],
  canceled: ["reopen"],
  done: [],
};

/** The actions for a task as it stands, the most likely one first. */
export function actionsFor(task, at) {
  const where = task.lease?.holder === "human" ? "human" : standing(task, at);
  const named_ = (key) => (key === "first" && task.override ? "notFirst" : key);
  return BY_STANDING[where].map((key) => ({ key, ...ACTIONS[named_(key)] }));
}

/** Do it; a refusal is told. */
export const act = (action, task) => attempt(() => action.run(task));
