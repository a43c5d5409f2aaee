// The page: a bar on top, one view below it, a task beside it.

import { Agents } from "./agents.js";
import { named } from "./actions.js";
import { callMe, identity, myName, signInNeeded } from "./server.js";
import { Board } from "./board.js";
import { Chat } from "./chat.js";
import { Dialog, ask } from "./dialog.js";
import { Graph, findNext } from "./graph.js";
import { Icon } from "./icons.js";
import { KeyHelp, helping } from "./keys.js";
import { List } from "./list.js";
import { follow, link } from "./live.js";
import { Needs } from "./needs.js";
import { Palette, openPalette } from "./palette.js";
import { VIEWS, adjust, go, linkTo, route } from "./route.js";
import { BulkBar, clearSelection, selected } from "./selection.js";
import { SignIn } from "./signin.js";
import { counts, loaded, project, readMatches, readScopes, scopes, tasks } from "./store.js";
import { TaskPanel } from "./task.js";
import { addTask } from "./taskform.js";
import { ThemeSwitch } from "./theme.js";
import { now, span } from "./time.js";
import { Timeline } from "./timeline.js";
import { Toasts, hush } from "./toast.js";
import { Tour } from "./tour.js";
import { Trends } from "./trends.js";
import { batch, classes, computed, effect, html, render, untracked } from "./ui.js";
import { readViews } from "./views.js";
import { initials } from "./words.js";

const NAMES = { board: "Board", needs: "Needs you", list: "List", graph: "Graph", timeline: "Timeline", agents: "Agents", trends: "Trends", chat: "Chat" };
const SHOWN = { board: Board, needs: Needs, list: List, graph: Graph, timeline: Timeline, agents: Agents, trends: Trends, chat: Chat };

function App() {
  if (signInNeeded.value) return html`<${SignIn} />`;
  const { view, task } = route.value;
  return html`<div class=${classes("page", task && "with-panel")} data-scope=${counts.value?.scope}>
    <${Bar} />
    <${Trouble} />
    <${SHOWN[view]} />
    <${TaskPanel} />
    <${BulkBar} />
    <${Dialog} />
    <${Palette} />
    <${KeyHelp} />
    <${Toasts} />
    <${Tour} />
  </div>`;
}

function Bar() {
  const { view } = route.value;
  return html`<header class="bar">
    <a class="brand" href=${linkTo({ view: "board", task: "" })} aria-label=${`${project.value || "dibs"}: open the board`} title=${project.value}><${Mark} /><span>${project.value || "dibs"}</span></a>
    <${ScopeChoice} />
    <nav aria-label="Views">
      ${VIEWS.map((each) => html`<a key=${each} href=${linkTo({ view: each, task: "" })} aria-current=${each === view ? "page" : undefined}>${NAMES[each]}${each === "needs" && needs() > 0 ? html`<span class="badge" aria-label=${`: ${needs()}`}>${needs()}</span>` : ""}</a>`)}
    </nav>
    <${Search} />
    <${Connection} />
    <div class="tools">
      <${You} />
      <${ThemeSwitch} />
      <button class="icon-only" aria-label="Commands" title="Commands (Ctrl K)" onClick=${() => openPalette(selected.value)}><${Icon} name="command" /></button>
      <button class="icon-only" aria-label="Keys" title="Keys (?)" onClick=${() => { helping.value = true; }}><${Icon} name="keys" /></button>
      <button class="primary" title="New task (n)" onClick=${() => addTask()}><${Icon} name="plus" /><span>New task</span></button>
    </div>
  </header>`;
}

const Mark = () => html`<svg class="mark" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
  <rect x="1" y="1" width="18" height="18" rx="5" /><path d="m5.5 10.3 3 3 6-6.6" />
</svg>`;

function ScopeChoice() {
  const current = route.value.scope ?? counts.value?.scope ?? "";
  const known = [...new Set([...scopes.value, current])].filter(Boolean);
  if (known.length < 2) return html`<span class="scope muted">${current}</span>`;
  const onChange = (event) => go({ scope: event.currentTarget.value, task: "" });
  return html`<select class="scope" aria-label="Scope" value=${current} onChange=${onChange} onFocus=${() => readScopes().catch(() => {})}>
    ${known.map((scope) => html`<option key=${scope} value=${scope} selected=${scope === current}>${shortened(scope)}</option>`)}
  </select>`;
}

/** A sender's scope is a long hash. */
const shortened = (scope) => (/^[0-9a-f]{32,}$/.test(scope) ? `sender ${scope.slice(0, 8)}…` : scope);

function Search() {
  const onInput = (event) => adjust({ text: event.currentTarget.value });
  const onKeyDown = (event) => {
    if (event.key === "Escape" && route.value.text) {
      event.preventDefault(); // the browser would empty the box and keep the filter
      adjust({ text: "" });
    }
    if (event.key !== "Enter") return;
    event.preventDefault();
    const first = document.querySelector(".card .title");
    if (route.value.view === "board") first?.focus();
    else if (route.value.view === "graph") findNext();
  };
  return html`<div class="search" role="search">
    <${Icon} name="search" />
    <input id="search" type="search" placeholder="Search" aria-label="Search tasks" value=${route.value.text ?? ""} onInput=${onInput} onKeyDown=${onKeyDown} />
    <kbd aria-hidden="true">/</kbd>
  </div>`;
}

const WORDS = { live: "Live", connecting: "Connecting", away: "Reconnecting", refused: "Refused", looking: "Every 15 s" };

function Connection() {
  const { state } = link.value;
  return html`<span class=${`connection ${state}`} role="status"><i aria-hidden="true"></i><span>${WORDS[state]}</span></span>`;
}

/** A banner while the server is unreachable and the page may be outdated. */
function Trouble() {
  const { state, since, why } = link.value;
  if (state === "refused") return html`<div class="banner" role="alert">${why}</div>`;
  if (state !== "away") return null;
  return html`<div class="banner" role="status">The server does not answer. This page is ${span(Math.max(1000, now.value - since))} old. It updates when the server is back.</div>`;
}

function You() {
  const rename = () =>
    myName.value
      ? ask({
          title: "What is your name?",
          fields: [{ name: "name", label: "Name", value: myName.value, most: 100 }],
          confirm: "Save",
          submit: ({ name }) => callMe(name),
        })
      : named();
  if (identity.value.agent || identity.value.sender) return html`<span class="you face human" title="Whom your token names">${initials(myName.value || "you")}</span>`;
  const label = myName.value ? `You are ${myName.value}` : "Say who you are";
  return html`<button class=${classes("you", "icon-only")} aria-label=${label} title=${label} onClick=${rename}>
    ${myName.value ? html`<span class="face human" aria-hidden="true">${initials(myName.value)}</span>` : html`<${Icon} name="person" />`}
  </button>`;
}

// On a change of scope, drop the data and follow the new scope.
const scope = computed(() => route.value.scope ?? "");
effect(() => {
  scope.value;
  untracked(() => {
    batch(() => {
      loaded.value = false;
      tasks.value = new Map();
      counts.value = null;
    });
    hush();
    clearSelection();
    readViews().catch(() => {}); // a store without settings has none
    follow();
  });
});

let typed;
effect(() => {
  const { text } = route.value;
  clearTimeout(typed);
  if (text) typed = setTimeout(() => readMatches(text).catch(() => {}), 250);
});

/** The number of tasks that need a person. */
function needs() {
  const all = counts.value?.by_status;
  return all ? (all.review ?? 0) + (all.escalated ?? 0) + (all.blocked ?? 0) : 0;
}

effect(() => {
  document.title = `${needs() ? `(${needs()}) ` : ""}${project.value || "dibs"} · ${NAMES[route.value.view]}`;
});

readScopes().catch(() => {}); // the event stream reports an unreachable server
render(html`<${App} />`, document.getElementById("page"));
