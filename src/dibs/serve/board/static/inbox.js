// The sender's notes, each delivered once. They are marked as seen after they were shown.

import { get, post } from "./server.js";
import { stream } from "./stream.js";
import { signal } from "./ui.js";

/** The notes of the current sender, oldest first, and the scope of their tasks. */
export const heard = signal([]);
export const senderScope = signal("");

const AGAIN = 2000; // milliseconds until a broken stream is opened again
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

/** Read waiting notes, then new ones. The server sends notes again that were not marked as seen. */
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

/** The server refused: a retry would not help. */
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
