// Which tasks to show: by who has them, by category, by words.

import { adjust, go, route } from "./route.js";
import { agentNames, categories, counts, filtered, passing } from "./store.js";
import { html } from "./ui.js";
import { plural } from "./words.js";

function Choice({ name, label, any, options }) {
  const value = route.value[name] ?? "";
  if (!options.length && !value) return null;
  const onChange = (event) => go({ [name]: event.currentTarget.value });
  return html`<select aria-label=${label} class=${value ? "set" : ""} value=${value} onChange=${onChange}>
    <option value="">${any}</option>
    ${[...new Set([...options, value])].filter(Boolean).map((each) => html`<option key=${each} value=${each} selected=${each === value}>${each}</option>`)}
  </select>`;
}

export function Filters() {
  const clear = () => adjust({ text: "", agent: "", category: "" });
  return html`<div class="filters">
    <${Choice} name="agent" label="Agent" any="Anyone" options=${agentNames.value} />
    <${Choice} name="category" label="Category" any="Any category" options=${categories.value} />
    ${filtered.value && html`<span class="muted">${plural(passing.value.length, "task")} shown</span><button class="plain" onClick=${clear}>Clear</button>`}
    <${Summary} />
  </div>`;
}

/** The state of the desk in a line. */
function Summary() {
  const all = counts.value;
  if (!all || filtered.value) return null;
  const { review = 0, escalated = 0, blocked = 0, active = 0, done = 0 } = all.by_status;
  const open = Object.entries(all.by_status).filter(([status]) => !["done", "canceled"].includes(status));
  const left = open.reduce((sum, [, count]) => sum + count, 0);
  const share = done + left ? Math.round((100 * done) / (done + left)) : 0;
  return html`<p class="summary">
    <span><b>${all.claimable}</b> to pick up</span>
    <span><b>${active}</b> at work</span>
    ${review + escalated + blocked > 0 && html`<span class="attention"><b>${review + escalated + blocked}</b> ${review + escalated + blocked === 1 ? "needs" : "need"} you</span>`}
    <span><b>${share}%</b> done</span>
  </p>`;
}
