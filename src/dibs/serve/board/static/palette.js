// The command palette (Ctrl K or ⌘ K): finds actions, tasks, views and agents by a few letters.

import { commonActions, perform } from "./actions.js";
import { Icon, Sign } from "./icons.js";
import { KEYS } from "./keys.js";
import { go, route } from "./route.js";
import { agentNames, categories, readMatches, tasks } from "./store.js";
import { lately } from "./time.js";
import { html, signal, useEffect, useLayoutEffect, useRef, useSignal } from "./ui.js";
import { plural, standing } from "./words.js";
import { openView, views } from "./views.js";

const SHOWN = 60;
const MOST_TASKS = 20;
const MOST_ACTIONS = 8;
const REST = 250; // milliseconds from the last letter to the search on the server

const opened = signal(null);

/** `meant` are the targets of actions: the selection, or the focused task. */
export const openPalette = (meant) => {
  opened.value = { meant };
};
export const paletteOpen = () => opened.value !== null;
const close = () => {
  opened.value = null;
};

export function Palette() {
  return opened.value && html`<${Box} meant=${opened.value.meant} />`;
}

function commands(meant) {
  const subject = meant.length === 1 ? meant[0].title : plural(meant.length, "task");
  const actions = meant.length ? commonActions(meant, lately.value) : [];
  return [
    ...actions.map(({ key, label, fits }) => ({ group: "Task", words: label.replace("…", ""), hint: subject, run: () => perform(key, fits) })),
    ...KEYS.filter(([, , , options]) => !options?.hidden).map(([key, words, run]) => ({ group: "Command", words, hint: key, run })),
    ...views.value.map((view) => ({ group: "View", words: `View: ${view.name}`, hint: "named view", run: () => openView(view) })),
    ...agentNames.value.map((agent) => ({ group: "Filter", words: `Show only ${agent}`, hint: "agent", run: () => go({ agent }) })),
    ...categories.value.map((category) => ({ group: "Filter", words: `Show only ${category}`, hint: "category", run: () => go({ category }) })),
    ...(route.value.agent || route.value.category || route.value.label ? [{ group: "Filter", words: "Show everything", hint: "clear filters", run: () => go({ agent: "", category: "", label: "", text: "", age: "" }) }] : []),
  ];
}

function taskCommands(words) {
  if (!words.length) return [];
  const found = [];
  for (const task of tasks.value.values()) {
    if (rank(`${task.id} ${task.title}`, words) >= 0) found.push({ group: "Open", words: task.title, hint: task.id, task, run: () => go({ task: task.id }) });
    if (found.length === MOST_TASKS) break;
  }
  return found;
}

/** Commands such as "block parser", an action and a task, for when no task is selected. */
function actionCommands([verb, ...words]) {
  const found = [];
  for (const task of verb?.length > 1 ? tasks.value.values() : []) {
    if (rank(`${task.id} ${task.title}`, words) < 0) continue;
    for (const { key, label } of commonActions([task], lately.value)) {
      const action = label.replace("…", "");
      if (action.toLowerCase().startsWith(verb)) found.push({ group: "Task", words: `${action}: ${task.title}`, hint: task.id, run: () => perform(key, [task]) });
    }
    if (found.length >= MOST_ACTIONS) break;
  }
  return found;
}

/** The rank of a match: 2 at the beginning, 1 at the beginning of words, 0 anywhere, -1 for none. */
function rank(text, words) {
  const lower = text.toLowerCase();
  if (!words.every((word) => lower.includes(word))) return -1;
  if (lower.startsWith(words[0] ?? "")) return 2;
  return words.every((word) => lower.includes(` ${word}`) || lower.startsWith(word)) ? 1 : 0;
}

function matching(text, meant) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const ranked = commands(meant).map((command) => ({ ...command, rank: rank(`${command.words} ${command.group === "Task" ? "" : command.hint}`, words) }));
  return [...ranked.filter((one) => one.rank >= 0).sort((a, b) => b.rank - a.rank), ...taskCommands(words), ...(meant.length ? [] : actionCommands(words))].slice(0, SHOWN);
}

function Box({ meant }) {
  const box = useRef();
  const text = useSignal("");
  const at = useSignal(0);
  const found = matching(text.value, meant);
  const current = Math.max(0, Math.min(at.value, found.length - 1));
  useLayoutEffect(() => { // before the next key press
    const [dialog, before] = [box.current, document.activeElement];
    dialog.showModal();
    return () => {
      dialog.close(); // an open dialog keeps the focus
      before?.focus?.({ preventScroll: true });
    };
  }, []);
  useEffect(() => {
    if (text.value.trim().length < 2) return undefined;
    const timer = setTimeout(() => readMatches(text.value).catch(() => {}), REST);
    return () => clearTimeout(timer);
  }, [text.value]);
  useEffect(() => box.current.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }));
  const run = (command) => {
    close();
    setTimeout(command.run); // after the focus has returned
  };
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length) at.value = (current + step + found.length) % found.length;
    else if (event.key === "Enter" && found[current]) run(found[current]);
    else return;
    event.preventDefault();
  };
  const onInput = (event) => {
    text.value = event.currentTarget.value;
    at.value = 0;
  };
  return html`<dialog ref=${box} class="palette" aria-label="Commands" onClose=${close} onClick=${(event) => { if (event.target === box.current) close(); }}>
    <div class="ask"><${Icon} name="search" />
      <input type="text" role="combobox" aria-label="Command, task or view" placeholder="What do you want to do?" autocomplete="off" spellcheck="false"
        aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list" aria-activedescendant=${found.length ? `palette-${current}` : undefined}
        value=${text} onInput=${onInput} onKeyDown=${onKeyDown} />
    </div>
    <ul id="palette-list" role="listbox" aria-label="Commands">
      ${found.map((command, index) => html`<li key=${index} id=${`palette-${index}`} role="option" aria-selected=${index === current}
        onMouseMove=${() => { if (at.value !== index) at.value = index; }} onClick=${() => run(command)}>
        ${command.task ? html`<${Sign} word=${standing(command.task, lately.value)} />` : html`<span class="muted group">${command.group}</span>`}
        <span class="what">${command.words}</span><span class="muted hint">${command.hint}</span>
      </li>`)}
      ${!found.length && html`<li class="muted none" role="option" aria-selected="false" aria-disabled="true">Nothing fits.</li>`}
    </ul>
  </dialog>`;
}
