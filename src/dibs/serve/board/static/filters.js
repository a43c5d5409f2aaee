// Filters by agent, label, category, age and text, and named views.

import { adjust, go, route } from "./route.js";
import { AGES, agentNames, categories, counts, filtered, labels, passing } from "./store.js";
import { attempt } from "./toast.js";
import { html } from "./ui.js";
import { deleteView, openView, saveView, shownView, views } from "./views.js";
import { plural } from "./words.js";

function Choice({ name, label, any, options }) {
  const value = route.value[name] ?? "";
  if (!options.length && !value) return null;
  const onChange = (event) => go({ [name]: event.currentTarget.value });
  return html`<select aria-label=${label} class=${value ? "set" : ""} value=${value} onChange=${onChange}>
    <option value="">${any}</option>
    ${(value && !options.some(([each]) => each === value) ? [...options, [value, value]] : options).map(([each, words]) => html`<option key=${each} value=${each} selected=${each === value}>${words}</option>`)}
  </select>`;
}

const pairs = (values) => values.map((each) => [each, each]);
const ageChoices = Object.entries(AGES).map(([key, { name }]) => [key, name]);

export function Filters({ children }) {
  const clear = () => adjust({ text: "", agent: "", category: "", label: "", age: "" });
  return html`<div class="filters">
    <${Views} />
    <${Choice} name="agent" label="Agent" any="Any agent" options=${pairs(agentNames.value)} />
    <${Choice} name="label" label="Label" any="Any label" options=${pairs(labels.value)} />
    <${Choice} name="category" label="Category" any="Any category" options=${pairs(categories.value)} />
    <${Choice} name="age" label="Age" any="Any age" options=${ageChoices} />
    ${children}
    <${Keeping} />
    ${filtered.value && html`<span class="muted">${plural(passing.value.length, "task")} shown</span><button class="plain" onClick=${clear}>Clear</button>`}
    <${Summary} />
  </div>`;
}

/** Choose a named view. */
function Views() {
  const shown = shownView();
  const onChange = (event) => {
    const chosen = views.value.find((view) => view.name === event.currentTarget.value);
    if (chosen) openView(chosen);
  };
  return html`${views.value.length > 0 && html`<select aria-label="Named view" class=${shown ? "set" : ""} value=${shown?.name ?? ""} onChange=${onChange}>
      <option value="">Views</option>
      ${views.value.map(({ name }) => html`<option key=${name} value=${name} selected=${name === shown?.name}>${name}</option>`)}
    </select>`}`;
}

/** Save the current view under a name, or delete it. */
function Keeping() {
  const shown = shownView();
  return html`${shown ? html`<button class="plain" onClick=${() => attempt(() => deleteView(shown))}>Delete view</button>` : (filtered.value || route.value.group || route.value.sort) && html`<button class="plain" onClick=${() => attempt(saveView)}>Save view</button>`}`;
}

/** The task counts in one line. */
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
