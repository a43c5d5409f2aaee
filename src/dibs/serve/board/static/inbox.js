// What the one who speaks is to hear: notes, each handed over once. They are shown first and then said to be seen.

import { get, post } from "./server.js";
import { stream } from "./stream.js";
import { signal } from "./ui.js";

/** The notes of the present sender, oldest first, and the scope that their tasks are in. */
export const heard = signal([]);
export const senderScope = signal("");

const AGAIN = 2000; // milliseconds after which a broken line is tried again
let present = null;

export function follow(who) {
  stopFollowing();
  present = new AbortController();
  heard.value = [];
  senderScope.value = "";
  keepListening(who, present.signal);
}

export function stopFollowing() {
  present?.abort();
  present = null;
}

/** What there is already, then what comes, until it is ended. What was handed out and not shown comes again by itself. */
async function keepListening(who, ending) {
  while (!ending.aborted) {
    try {
      const found = await get("/inbox", { sender: who, all: 1 }, { signal: ending });
      senderScope.value = found.scope;
      await shown(who, found.notes);
      for await (const message of stream("/inbox", { sender: who }, ending)) {
        if (message.event === "note") await shown(who, [JSON.parse(message.data)]);
      }
    } catch (error) {
      if (ending.aborted) return;
      if (error.status) return trouble(error);
    }
    await new Promise((resolve) => { setTimeout(resolve, AGAIN); });
  }
}

/** The server will not have it: trying again is no use. */
function trouble(error) {
  add([{ id: "trouble", at: new Date().toISOString(), text: error.message, kind: "refused" }]);
}

async function shown(who, notes) {
  add(notes);
  const tokens = Object.fromEntries(notes.filter((note) => note.token).map((note) => [note.id, note.token]));
  if (Object.keys(tokens).length) await post("/inbox/seen", { sender: who, tokens });
}

function add(notes) {
  if (!notes.length) return;
  const known = new Map(heard.value.map((note) => [note.id, note]));
  for (const note of notes) known.set(note.id, note);
  heard.value = [...known.values()].sort((a, b) => a.at.localeCompare(b.at));
}
