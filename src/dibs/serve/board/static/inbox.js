// What the one who speaks is to hear: notes, each handed over once. They are shown first and then said to be seen.

import { get, post } from "./api.js";
import { signal } from "./ui.js";

/** The notes of the present sender, oldest first. */
export const heard = signal([]);

const EVERY = 2000; // milliseconds between looks
let present = null;

export function follow(who) {
  stopFollowing();
  present = { who, timer: null };
  heard.value = [];
  look(present, true);
}

export function stopFollowing() {
  clearTimeout(present?.timer);
  present = null;
}

async function look(mine, all) {
  let again = all;
  try {
    const { notes } = await get("/inbox", { sender: mine.who, ...(all ? { all: 1 } : {}) });
    if (mine !== present) return; // what was leased for this page comes again by itself
    add(notes);
    await seen(mine.who, notes);
    again = false;
  } catch (error) {
    if (error.status !== 0) console.warn(error);
  }
  if (mine === present) mine.timer = setTimeout(() => look(mine, again), EVERY);
}

function add(notes) {
  if (!notes.length) return;
  const known = new Map(heard.value.map((note) => [note.id, note]));
  for (const note of notes) known.set(note.id, note);
  heard.value = [...known.values()].sort((a, b) => a.at.localeCompare(b.at));
}

async function seen(who, notes) {
  const tokens = Object.fromEntries(notes.filter((note) => note.token).map((note) => [note.id, note.token]));
  if (Object.keys(tokens).length) await post("/inbox/seen", { sender: who, tokens });
}
