// The graph of dependencies: a drawing to pan and zoom, or a list.

import { get } from "./server.js";
import { Icon, Sign } from "./icons.js";
import { laidOut } from "./layout.js";
import { linked, refusedCircle } from "./links.js";
import { adjust, go, linkTo, route } from "./route.js";
import { Scene } from "./scene.js";
import { counts, shape, tasks } from "./store.js";
import { dark } from "./theme.js";
import { lately } from "./time.js";
import { html, signal, useEffect, useRef, useSignal, useSignalEffect } from "./ui.js";
import { STATUS, plural, standing } from "./words.js";

const SMALL = 600; // up to this many tasks, finished ones are shown by default
const RESTS = 800; // milliseconds at least between two reads

/** The shown drawing, if any. */
export let scene = null;

/** Whether finished tasks are shown: from the address, else by the number of tasks. */
function showsFinished() {
  if (route.value.finished) return route.value.finished === "1";
  const all = counts.value?.by_status;
  return !all || Object.values(all).reduce((sum, count) => sum + count, 0) <= SMALL;
}

/** The graph, read again when its shape may have changed, at most every `RESTS`. */
function useGraph(finished) {
  const found = useSignal(null);
  const trouble = useSignal("");
  const state = useRef({ busy: false, again: false, until: 0 }).current;
  const current = shape.value;
  const { scope } = route.value;
  useEffect(() => {
    const read = async () => {
      if (state.busy) {
        state.again = true;
        return;
      }
      state.busy = true;
      const began = performance.now();
      const asked = { finished: state.finished, scope: state.scope };
      try {
        found.value = { ...(await get("/graph", { finished: asked.finished ? 1 : 0 })), ...asked };
        trouble.value = "";
      } catch (error) {
        trouble.value = error.message;
      }
      setTimeout(() => {
        state.busy = false;
        if (state.again) {
          state.again = false;
          read();
        }
      }, Math.max(RESTS, 4 * (performance.now() - began)));
    };
    Object.assign(state, { finished, scope });
    read();
  }, [current, finished, scope]);
  return { found: found.value?.scope === scope ? found.value : null, trouble: trouble.value };
}

export function Graph() {
  const finished = showsFinished();
  const { found, trouble } = useGraph(finished);
  const asList = route.value.as === "list";
  return html`<main class="graph">
    <h1 class="unseen">Graph</h1>
    ${found && !found.tasks.length && html`<p class="welcome muted">There is nothing to draw: no task is ${finished ? "there" : "open"} in this scope.</p>`}
    ${found?.tasks.length > 0 && (asList ? html`<${Outline} found=${found} />` : html`<${Drawing} found=${found} />`)}
    <div class="controls">
      <button aria-pressed=${asList} onClick=${() => go({ as: asList ? "" : "list" })}>${asList ? "Drawing" : "List"}</button>
      ${!asList && html`<button onClick=${() => scene?.fit()} title="Show all (0)"><${Icon} name="fit" />Fit</button>
        <button class="step" aria-label="Closer" onClick=${() => scene?.zoom(1.3)}>+</button>
        <button class="step" aria-label="Farther" onClick=${() => scene?.zoom(1 / 1.3)}>−</button>`}
      <label><input type="checkbox" checked=${finished} onChange=${(event) => adjust({ finished: event.currentTarget.checked ? "1" : "0" })} /> Finished</label>
      ${trouble && html`<span class="trouble">${trouble}</span>`}
    </div>
  </main>`;
}

/** Give each node the current version of its task. */
function freshen(graph) {
  const at = lately.value;
  for (const node of graph.nodes.values()) {
    node.task = tasks.value.get(node.id) ?? node.task;
    node.word = standing(node.task, at);
  }
}

const pointed = signal(null);

function Drawing({ found }) {
  const canvas = useRef();
  const minimap = useRef();
  const graph = useRef(null);
  useEffect(() => {
    scene = new Scene(canvas.current, minimap.current, {
      open: (id) => go({ task: id }),
      link: (task, on) => linked(task, on),
      hover: (node, place, pull) => { pointed.value = node && { node, place, pull }; },
      walked: (node) => { pointed.value = null; walkedTo.value = node; },
    });
    return () => {
      scene.close();
      scene = null;
      pointed.value = null;
    };
  }, []);
  useEffect(() => {
    const first = graph.current?.finished !== found.finished;
    graph.current = Object.assign(laidOut(found), { finished: found.finished });
    freshen(graph.current);
    scene.show(graph.current, { fit: first });
  }, [found]);
  useSignalEffect(() => {
    tasks.value;
    lately.value;
    if (graph.current) freshen(graph.current);
    if (scene) scene.small = null;
    scene?.redraw();
  });
  useSignalEffect(() => {
    dark.value;
    scene?.recolour();
  });
  useSignalEffect(() => {
    const words = (route.value.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (task) => words.every((word) => `${task.id} ${task.title}`.toLowerCase().includes(word));
    const nodes = graph.current ? [...graph.current.nodes.values()] : [];
    matches.value = words.length ? nodes.filter((node) => fits(node.task)).map((node) => node.id) : null;
    scene?.set({ matches: matches.value && new Set(matches.value), chosen: route.value.task, circle: refusedCircle.value && new Set(refusedCircle.value) });
  });
  return html`
    <canvas ref=${canvas} class="drawing" tabindex="0" role="application" aria-label="Graph of tasks. Arrow keys go from task to task, Enter opens one. The list shows the same."></canvas>
    <${Hint} />
    <div class="legend" aria-hidden="true"><span><i></i> longest open chain</span><span>drag from a task's right edge to the task that must wait for it</span></div>
    <canvas ref=${minimap} class="minimap" width="180" height="110" aria-hidden="true"></canvas>
    <p class="unseen" role="status">${walkedTo.value ? spoken(walkedTo.value) : ""}</p>`;
}

const walkedTo = signal(null);
const spoken = (node) => `${node.task.title}, ${STATUS[node.word]}. ${summary(node)}`;

const summary = (node) => {
  const parts = [];
  if (node.before.length) parts.push(`comes after ${plural(node.before.length, "task")}`);
  if (node.after.length) parts.push(`before ${plural(node.after.length, "task")}`);
  return parts.join(", ") || "no links";
};

/** A description of the task at the pointer. */
function Hint() {
  if (!pointed.value) return null;
  const { node, place, pull } = pointed.value;
  const { width, height } = scene.view;
  const style = {
    left: place.x > width - 330 ? "auto" : `${place.x + 16}px`,
    right: place.x > width - 330 ? `${width - place.x + 16}px` : "auto",
    top: place.y > height - 140 ? "auto" : `${place.y + 16}px`,
    bottom: place.y > height - 140 ? `${height - place.y + 16}px` : "auto",
  };
  const words = pull
    ? pull.bad ? `${pull.from.task.title} comes after it already: that would be a circle.` : `would wait for ${pull.from.task.title}`
    : `${STATUS[node.word]}${node.task.lease ? `, ${node.task.lease.agent}` : ""} · ${summary(node)}`;
  return html`<div class="hint" style=${style}><b>${node.task.title}</b><span class="muted">${words}</span></div>`;
}

// Searching

const matches = signal(null);
let nextMatch = 0;

/** Go to the next match of the search. */
export function findNext() {
  if (!matches.value?.length) return;
  nextMatch = (nextMatch + 1) % matches.value.length;
  scene?.focus(matches.value[nextMatch]);
}

// The same as a list

function Outline({ found }) {
  const at = lately.value;
  const path = new Set(found.critical_path);
  const known = new Map(found.tasks.map((task) => [task.id, tasks.value.get(task.id) ?? task]));
  const needs = new Map();
  for (const link of found.links) {
    if (link.kind === "blocks" && known.has(link.on)) needs.set(link.task, [...(needs.get(link.task) ?? []), known.get(link.on).title]);
  }
  return html`<div class="outline" tabindex="0" aria-label="Tasks by phase">
    ${found.layers.map((layer, index) => html`<section key=${index} aria-labelledby=${`phase-${index}`}>
      <h2 id=${`phase-${index}`}>Phase ${index + 1}</h2>
      <ul>${layer.filter((id) => known.has(id)).map((id) => html`<${Line} key=${id} task=${known.get(id)} at=${at} needs=${needs.get(id)} star=${path.has(id)} />`)}</ul>
    </section>`)}
  </div>`;
}

const Line = ({ task, at, needs, star }) => html`<li>
  <${Sign} word=${standing(task, at)} alone=${true} />
  <a href=${linkTo({ task: task.id })}>${task.title}</a>
  ${star && html`<span class="star">longest chain</span>`}
  ${needs && html`<span class="muted">after ${needs.slice(0, 3).join(", ")}${needs.length > 3 ? ` and ${needs.length - 3} more` : ""}</span>`}
</li>`;
