// The agents: their tasks, remaining lease time, limits and scores.

import { get } from "./server.js";
import { Holder, Lease } from "./lease.js";
import { linkTo } from "./route.js";
import { version } from "./store.js";
import { ago } from "./time.js";
import { html, useEffect, useSignal } from "./ui.js";
import { plural } from "./words.js";

/** Agents and scores, read again after events, at most once per second. */
function useAgents() {
  const found = useSignal(null);
  const scores = useSignal({});
  const trouble = useSignal("");
  const current = version.value;
  useEffect(() => {
    const read = async () => {
      try {
        const [who, how] = await Promise.all([get("/agents"), get("/scores").catch(() => ({ agents: [] }))]);
        scores.value = Object.fromEntries((how.agents ?? []).map((score) => [score.agent, score]));
        found.value = who.agents;
        trouble.value = "";
      } catch (error) {
        trouble.value = error.message;
      }
    };
    const timer = setTimeout(read, found.peek() ? 500 : 0);
    return () => clearTimeout(timer);
  }, [current]);
  return { found: found.value, scores: scores.value, trouble: trouble.value };
}

const busiestFirst = (a, b) => b.holds.length - a.holds.length || Number(b.present ?? 0) - Number(a.present ?? 0) || a.agent.localeCompare(b.agent);

export function Agents() {
  const { found, scores, trouble } = useAgents();
  if (trouble && !found) return html`<main class="agents"><p class="trouble">${trouble}</p></main>`;
  if (!found) return html`<main class="agents" aria-busy="true"></main>`;
  const known = [...found].filter((agent) => agent.status !== "gone" || agent.holds.length).sort(busiestFirst);
  const working = known.filter((agent) => agent.holds.length).length;
  return html`<main class="agents">
    <header><h1>Agents</h1><p class="muted">${known.length ? `${working} of ${plural(known.length, "agent")} at work` : ""}</p></header>
    ${known.length ? html`<ul class="roster">${known.map((agent) => html`<${Agent} key=${agent.agent} agent=${agent} score=${scores[agent.agent]} />`)}</ul>` : html`<${NoAgents} />`}
  </main>`;
}

function stateOf(agent) {
  if (agent.holds.length) return ["working", "at work"];
  if (agent.present || agent.status === "active") return ["idle", "waiting for work"];
  return ["away", agent.seen_at ? `last seen ${ago(agent.seen_at)}` : "away"];
}

function Agent({ agent, score }) {
  const [state, words] = stateOf(agent);
  const human = agent.holds.some((held) => held.lease?.holder === "human");
  return html`<li class=${`agent ${state}`}>
    <div class="who">
      <h2><${Holder} name=${agent.agent} human=${human} /></h2>
      <p class="muted">${[agent.role, words].filter(Boolean).join(" · ")}</p>
    </div>
    <${Held} agent=${agent} />
    <div class="about">
      ${agent.limit !== undefined && html`<p class="room"><span class="slots" aria-hidden="true">${slots(agent)}</span> ${agent.holds.length} of ${agent.limit}</p>`}
      ${agent.waiting > 0 && html`<p class="muted">${plural(agent.waiting, "task waits", "tasks wait")} for it</p>`}
      ${agent.can?.length > 0 && html`<p class="tags">${agent.can.map((skill) => html`<span class="tag" key=${skill}>${skill}</span>`)}</p>`}
      ${score && html`<${Score} score=${score} />`}
    </div>
  </li>`;
}

const slots = (agent) =>
  Array.from({ length: Math.min(agent.limit, 8) }, (_, index) => html`<i key=${index} class=${index < agent.holds.length ? "full" : ""}></i>`);

function Held({ agent }) {
  if (!agent.holds.length) return html`<p class="held muted">Holds nothing.</p>`;
  return html`<ul class="held">
    ${agent.holds.map((held) => html`<li key=${held.id}>
      <a href=${linkTo({ task: held.id })}>${held.title}</a>
      ${held.lease && html`<${Lease} lease=${held.lease} />`}
    </li>`)}
  </ul>`;
}

function Score({ score }) {
  const parts = [`${score.finished} finished`];
  if (score.failed) parts.push(`${score.failed} failed`);
  if (score.lost) parts.push(`${score.lost} lost`);
  return html`<p class="muted">${parts.join(" · ")}</p>`;
}

const NoAgents = () => html`<div class="welcome">
  <p>No agent has claimed a task yet. An agent starts with</p>
  <pre><code>dibs claim --agent NAME</code></pre>
  <p>or let dibs run one for each task:</p>
  <pre><code>dibs work --agent NAME -- COMMAND</code></pre>
</div>`;
