// A guided tour in a few steps. `tour=1` in the address starts it; once dismissed, it does not start again.

import { kept } from "./kept.js";
import { adjust, go, route } from "./route.js";
import { tasks } from "./store.js";
import { html, signal, useEffect, useRef } from "./ui.js";

const dismissed = kept("tour", false);
const at = signal(-1); // the current step; -1: none

/** An example task: one at work, else any. */
const busy = () => [...tasks.value.values()].find((task) => task.status === "active") ?? [...tasks.value.values()][0];

const STEPS = [
  ["The board", "Work moves from left to right. An agent claims a task from Ready and holds it by a lease, the bar on its card. When an agent dies, its lease expires and another one takes over.", () => go({ view: "board", task: "" })],
  ["Act by dropping", "Drop a card on another column: on At work you claim it, on Needs you it is blocked, on Finished you finish or cancel it. Each drop can be undone. By keyboard, press m.", () => go({ view: "board", task: "" })],
  ["The work itself", "A task shows its live output, earlier attempts, branch and diff, and the results of its prerequisites.", () => go({ view: "board", task: busy()?.id ?? "" })],
  ["Tasks that need you", "Reviews, blocked tasks and decisions wait here. 1, 2 and 3 answer the focused task. The tab's title shows their number.", () => go({ view: "needs", task: "" })],
  ["Everything as a list", "Sort, group, and edit in place. Select tasks with x or Shift and a click, then change them all at once. Save the view under a name.", () => go({ view: "list", task: "" })],
  ["Dependencies", "The blue line is the longest chain of open work. Drag from a task's right edge to the task that must wait for it.", () => go({ view: "graph", task: "" })],
  ["Attempts and trends", "The timeline has a bar for each attempt, with retries and expired leases. Trends shows throughput, times, failures and stuck tasks.", () => go({ view: "timeline", since: "15m", task: "" })],
  ["Anything, from anywhere", "Ctrl K finds every action, task and view. ? shows all keys.", () => go({ view: "board", since: "", task: "" })],
];

export function startTour() {
  dismissed.value = false;
  show(0);
}

function show(step) {
  at.value = step;
  STEPS[step]?.[2]();
}

function end() {
  at.value = -1;
  dismissed.value = true;
  if (route.value.tour) adjust({ tour: "" });
}

export function Tour() {
  const asked = Boolean(route.value.tour) && !dismissed.value;
  useEffect(() => {
    if (asked && at.peek() < 0) show(0);
  }, [asked]);
  return at.value >= 0 && html`<${Card} key="tour" step=${at.value} />`;
}

function Card({ step }) {
  const box = useRef();
  const [title, words] = STEPS[step];
  const last = step === STEPS.length - 1;
  useEffect(() => box.current.focus({ preventScroll: true }), [step]);
  return html`<aside class="tour" ref=${box} tabindex="-1" aria-label="Guided tour">
    <p class="muted" aria-live="polite">${step + 1} of ${STEPS.length}</p>
    <h2>${title}</h2>
    <p>${words}</p>
    <div class="buttons">
      <button class="plain" onClick=${end}>Dismiss</button><span class="grow"></span>
      ${step > 0 && html`<button onClick=${() => show(step - 1)}>Back</button>`}
      <button class="primary" onClick=${() => (last ? end() : show(step + 1))}>${last ? "Done" : "Next"}</button>
    </div>
  </aside>`;
}
