// Follow the events. An event only names a task to read again, so missed or repeated events do no harm.

import { signInNeeded } from "./server.js";
import { learn, refresh } from "./store.js";
import { stream } from "./stream.js";
import { signal } from "./ui.js";

/** State of the connection: "connecting", "live", "away" since the last message, "refused" with a reason, or "looking" (polling). */
export const link = signal({ state: "connecting", since: Date.now() });

const GATHER = 60; // milliseconds in which events are collected
const RESTS = 250; // at least between two reads, to limit the load
const LOOKS = 15_000; // between two polls of a store without events
const TROUBLE = 1500; // the same after a failed read
const SILENCE = 45_000; // the server sends something every 15 seconds
const WAITS = [300, 700, 1500, 3000, 5000]; // before the next try

// These verbs may change whether other tasks wait.
const FREEING = new Set(["done", "approve", "cancel", "reopen", "link", "unlink", "edit", "add", "import", "escalate"]);

let following = null;

/** Follow the scope of the address from now on, until called again. */
export function follow() {
  following?.abort();
  following = new AbortController();
  link.value = { state: "connecting", since: Date.now() };
  keepFollowing(following.signal);
}

async function keepFollowing(ending) {
  let tries = 0;
  while (!ending.aborted) {
    const { heard, why, code } = await listen(ending, () => {
      tries = 0;
    });
    if (ending.aborted || signInNeeded.value) return;
    if (code === "UNSUPPORTED") await look(ending);
    else if (why) link.value = { state: "refused", since: heard, why };
    else if (link.value.state !== "away") link.value = { state: "away", since: heard };
    await pause(WAITS[Math.min(tries++, WAITS.length - 1)], ending);
  }
}

/** Poll a store without events, such as Notion. */
async function look(ending) {
  while (!ending.aborted) {
    try {
      await refresh();
      link.value = { state: "looking", since: Date.now() };
    } catch (error) {
      if (error.status === 0) link.value = { state: "away", since: link.value.since };
      else link.value = { state: "refused", since: link.value.since, why: error.message };
    }
    await pause(LOOKS, ending);
  }
}

/** Read one stream to its end. Returns the time of its last message and the reason of a refusal. */
async function listen(ending, onHello) {
  const line = new AbortController();
  const giveUp = () => line.abort();
  ending.addEventListener("abort", giveUp);
  const gathered = gathering(ending);
  let heard = link.value.since;
  let refusal = {};
  let watchdog = setTimeout(giveUp, SILENCE);
  try {
    for await (const message of stream("/events", {}, line.signal)) {
      heard = Date.now();
      clearTimeout(watchdog);
      watchdog = setTimeout(giveUp, SILENCE);
      if (message.event === "hello") {
        await refresh();
        link.value = { state: "live", since: heard };
        onHello();
      } else if (message.data) gathered(JSON.parse(message.data));
    }
  } catch (error) {
    if (error.status) refusal = { why: error.message, code: error.code };
    else if (error.status === undefined && !ending.aborted && error.name !== "AbortError") broken(error);
  } finally {
    clearTimeout(watchdog);
    ending.removeEventListener("abort", giveUp);
  }
  return { heard, ...refusal };
}

/** Log errors of this page; a broken connection is expected. */
function broken(error) {
  if (!(error instanceof TypeError && /network|fetch/i.test(error.message))) console.error(error);
}

/** Read changed tasks in batches, one read at a time: a burst of events causes one read. */
function gathering(ending) {
  let ids = new Set();
  let dependents = false;
  let busy = false;

  async function ask() {
    const asked = { ids, dependents };
    [ids, dependents] = [new Set(), false];
    let rest = RESTS;
    try {
      await learn(asked.ids, { dependents: asked.dependents });
    } catch {
      ids = new Set([...asked.ids, ...ids]); // failed: read again with newer ids
      dependents ||= asked.dependents;
      rest = TROUBLE;
    }
    busy = ids.size > 0 && !ending.aborted;
    if (busy) setTimeout(ask, rest);
  }

  return (event) => {
    if (!event.task) return;
    ids.add(event.task);
    if (FREEING.has(event.verb)) dependents = true;
    if (busy) return;
    busy = true;
    setTimeout(ask, GATHER);
  };
}

const pause = (milliseconds, ending) =>
  new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    ending.addEventListener("abort", resolve, { once: true });
  });
