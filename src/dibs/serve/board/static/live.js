// Follow what happens at the desk. Events say which tasks to look at again; they are not applied themselves, so a page
// that missed some, or got them twice, still ends up with what is true.

import { signInNeeded } from "./server.js";
import { learn, refresh } from "./store.js";
import { stream } from "./stream.js";
import { signal } from "./ui.js";

/** "connecting" at first, "live", "away" since the server was last heard, "refused", and why, or "looking". */
export const link = signal({ state: "connecting", since: Date.now() });

const GATHER = 60; // milliseconds in which events are put together
const RESTS = 250; // and between two questions, so that a busy desk is not kept busier by those who look on
const LOOKS = 15_000; // between two looks at a store that tells nothing by itself
const TROUBLE = 1500; // the same after a question that got no answer
const SILENCE = 45_000; // the server says something every 15 seconds
const WAITS = [300, 700, 1500, 3000, 5000]; // before the next try

// A change of these verbs may change whether others wait.
const FREEING = new Set(["done", "approve", "cancel", "reopen", "link", "unlink", "edit", "add", "import", "escalate"]);

let following = null;

/** Follow from now on, in the scope of the address, until called again or `stop`. */
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

/** A store that keeps no record of what happens, such as Notion, is looked at every now and then instead. */
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

/** One stream, from its first word to its end: when it was last heard, and why the server would not have it. */
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

/** A line that breaks is no news here; anything else is a mistake of this page. */
function broken(error) {
  if (!(error instanceof TypeError && /network|fetch/i.test(error.message))) console.error(error);
}

/** Look at what changed in batches: a burst of a hundred events is one question. One is asked at a time. */
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
      ids = new Set([...asked.ids, ...ids]); // gone, or too busy: asked again, with what came meanwhile
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
