// The work on a task: live output, attempts, branch with diff, and inputs.

import { Diff, Size } from "./diff.js";
import { Holder } from "./lease.js";
import { linkTo } from "./route.js";
import { get, taskPath } from "./server.js";
import { tasks, take } from "./store.js";
import { stream } from "./stream.js";
import { Value } from "./text.js";
import { ago, clock, exactly } from "./time.js";
import { say } from "./toast.js";
import { html, useEffect, useRef, useSignal } from "./ui.js";

const KEPT = 300_000; // characters of output that the page holds
const AGAIN = 1500; // milliseconds until a broken stream is opened again

// Output

/** The text without terminal colours and overwritten lines. */
export function plain(text) {
  const calm = text.replace(/\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g, "");
  return calm.replace(/[^\n]*\r(?!\n)/g, "").replaceAll("\r\n", "\n");
}

/** The output of an attempt, live: the text, whether it has ended, and the attempts with output. */
function useOutput(id, attempt, latest) {
  const state = useSignal({ text: "", over: true, attempts: [], trouble: "", missing: false });
  useEffect(() => {
    const ending = new AbortController();
    let end = 0;
    const add = (pieces, more) => {
      const fresh = pieces.filter((piece) => piece.start >= end || piece.start === undefined);
      state.value = { ...state.value, ...more, text: (state.value.text + fresh.map((piece) => piece.text).join("")).slice(-KEPT) };
    };
    const read = async () => {
      const page = await get(taskPath(id, "output"), { attempt, after: end }, { signal: ending.signal });
      add(page.pieces, { over: page.over, attempts: page.attempts, trouble: "", missing: !page.attempts.length });
      end = page.end;
      if (page.over) return;
      for await (const message of stream(taskPath(id, "output"), { attempt: page.attempt, after: end }, ending.signal)) {
        if (message.event === "output") {
          const piece = JSON.parse(message.data);
          add([piece], {});
          end = Number(message.id?.split(":")[1] ?? end);
        } else if (message.event === "end") return add([], { over: true });
      }
    };
    const keep = async () => {
      while (!ending.signal.aborted && !(state.peek().over && end)) {
        try {
          await read();
          if (state.peek().over) return;
        } catch (error) {
          if (ending.signal.aborted) return;
          if (error.status) return void (state.value = { ...state.value, missing: true });
          state.value = { ...state.value, trouble: "The server does not answer; the output goes on when it is back." };
        }
        await new Promise((resolve) => { setTimeout(resolve, AGAIN); });
      }
    };
    state.value = { text: "", over: false, attempts: [], trouble: "", missing: false };
    keep();
    return () => ending.abort();
  }, [id, attempt, latest]);
  return state.value;
}

export function Output({ task, attempt, choose }) {
  const { text, over, attempts, trouble, missing } = useOutput(task.id, attempt, task.attempt);
  const box = useRef();
  const follows = useRef(true);
  const shown = plain(text);
  useEffect(() => {
    if (box.current && follows.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown]);
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current;
    follows.current = scrollHeight - scrollTop - clientHeight < 30;
  };
  if (missing || (!attempts.length && !shown)) return null;
  const running = !over && task.status === "active";
  return html`<section class="output" aria-labelledby="output">
    <h3 id="output">Output ${running && html`<span class="live"><i aria-hidden="true"></i>live</span>`}
      ${attempts.length > 1 && html`<select aria-label="Attempt" value=${attempt ?? attempts.at(-1)} onChange=${(event) => choose(Number(event.currentTarget.value))}>
        ${attempts.map((each) => html`<option key=${each} value=${each} selected=${each === (attempt ?? attempts.at(-1))}>Attempt ${each}</option>`)}
      </select>`}</h3>
    ${trouble && html`<p class="muted">${trouble}</p>`}
    <pre ref=${box} tabindex="0" role="log" aria-label="Output of the attempt" onScroll=${onScroll}>${shown || "Nothing yet."}</pre>
  </section>`;
}

// Attempts

const ENDS = { done: "done", fail: "failed", exhaust: "failed", review: "sent to review", block: "blocked", release: "released", pause: "paused", cancel: "canceled" };

/** The attempts in the events of a task, the latest first. */
function attemptsOf(events) {
  const found = [];
  for (const event of events.filter(({ outcome }) => !outcome || outcome === "ok")) {
    const open = found.at(-1)?.end ? null : found.at(-1);
    if (event.verb === "claim") {
      if (open) Object.assign(open, { end: event.at, how: event.detail?.forced ? "taken over" : "lease expired" });
      found.push({ number: event.attempt ?? found.length + 1, agent: event.agent, begin: event.at });
    } else if (open && ENDS[event.verb]) {
      Object.assign(open, { end: event.at, how: event.reason?.startsWith("lease expired") ? "lease expired" : ENDS[event.verb], why: event.reason });
    }
  }
  return found.reverse();
}

export function Attempts({ events, choose }) {
  const found = attemptsOf(events);
  if (!found.length) return null;
  return html`<section aria-labelledby="attempts"><h3 id="attempts">Attempts</h3>
    <ol class="attempts">${found.map((one) => html`<li key=${one.number}>
      <span class="number">${one.number}</span><${Holder} name=${one.agent ?? "unknown"} />
      <span class=${`how ${one.end ? one.how.replaceAll(" ", "-") : "running"}`}>${one.end ? one.how : "at work"}</span>
      <span class="muted">${one.end ? clock(Date.parse(one.end) - Date.parse(one.begin)) : ""}</span>
      <time class="muted" datetime=${one.begin} title=${exactly(one.begin)}>${ago(one.begin)}</time>
      <button class="plain" aria-label=${`Show the output of attempt ${one.number}`} onClick=${() => choose(one.number)}>Output</button>
      ${one.why && one.how !== "done" && html`<span class="why-ended muted">${one.why}</span>`}
    </li>`)}</ol></section>`;
}

// Branch and diff

const copied = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied ${text}.`);
  } catch {
    say("This browser does not let the page copy. Select the text instead.", { kind: "bad" });
  }
};

export function Branch({ task }) {
  const { git } = task;
  const diff = useSignal(null);
  const trouble = useSignal("");
  if (!git?.branch) return null;
  const load = async () => {
    try {
      const found = await get(taskPath(task.id, "diff"));
      diff.value = typeof found === "string" ? found : found.diff ?? found.text ?? "";
      trouble.value = diff.value ? (found.truncated ? "The diff is long; this is its beginning." : "") : "The branch does not differ from its base.";
    } catch (error) {
      trouble.value = [404, 501].includes(error.status) ? `This server cannot show the diff. In the repository: git diff ${git.base ? `${git.base.slice(0, 12)}...` : ""}${git.branch}` : error.message;
    }
  };
  return html`<section aria-labelledby="branch"><h3 id="branch">Branch</h3>
    <p class="branch"><code>${git.branch}</code><button class="plain" onClick=${() => copied(git.branch)}>Copy</button>
      ${git.files !== undefined && html`<span class="muted">${git.files === 1 ? "1 file" : `${git.files} files`}</span><${Size} added=${git.insertions} removed=${git.deletions} />`}
      ${git.target && html`<span class="muted">merged into ${git.target}</span>`}
      <button onClick=${load}>${diff.value ? "Reload the diff" : "Show the diff"}</button></p>
    ${trouble.value && html`<p class="muted">${trouble}</p>`}
    ${diff.value && html`<${Diff} text=${diff.value} />`}
  </section>`;
}

// Inputs

/** The results of finished prerequisites. */
export function Inputs({ task, links }) {
  const before = links.filter((link) => link.task === task.id && link.kind !== "parallel_ok").map((link) => link.on);
  const missing = before.filter((id) => !tasks.value.has(id) && !id.includes(","));
  useEffect(() => {
    if (missing.length) get("/tasks", { ids: missing.join(",") }).then((answer) => take(answer.tasks), () => {});
  }, [missing.join(",")]);
  const found = before.map((id) => tasks.value.get(id)).filter((each) => each?.status === "done" && (each.result !== undefined || each.artifacts));
  if (!found.length) return null;
  return html`<section aria-labelledby="inputs"><h3 id="inputs">Inputs</h3>
    ${found.map((each) => html`<details key=${each.id} class="input"><summary>${each.title} <span class="id">${each.id}</span></summary>
      ${each.result !== undefined && html`<${Value} value=${each.result} />`}
      ${each.artifacts?.map((place) => html`<p key=${place}><code>${place}</code></p>`)}
      <p><a href=${linkTo({ task: each.id })}>Open ${each.id}</a></p>
    </details>`)}
  </section>`;
}
