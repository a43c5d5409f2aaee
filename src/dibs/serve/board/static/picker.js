// Pick tasks by typing a part of their id or title: a combobox with a list under it.

import { html, useSignal } from "./ui.js";
import { Sign } from "./icons.js";
import { tasks } from "./store.js";
import { lately } from "./time.js";
import { standing } from "./words.js";

const SHOWN = 8;

function matching(text, without) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const fits = (task) => words.every((word) => `${task.id} ${task.title}`.toLowerCase().includes(word));
  const open = (task) => (["done", "canceled"].includes(task.status) ? 1 : 0);
  return [...tasks.value.values()]
    .filter((task) => !without.includes(task.id) && fits(task))
    .sort((a, b) => open(a) - open(b))
    .slice(0, SHOWN);
}

export function TaskPicker({ id, label, without = [], onPick, placeholder = "Type a part of its title or id" }) {
  const text = useSignal("");
  const at = useSignal(0);
  const found = matching(text.value, without);
  const list = `${id}-list`;
  const pick = (task) => {
    text.value = "";
    onPick(task.id);
  };
  const onKeyDown = (event) => {
    if (!found.length) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      at.value = (at.value + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length;
    } else if (event.key === "Enter") {
      event.preventDefault();
      pick(found[Math.min(at.value, found.length - 1)]);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      event.preventDefault();
      text.value = "";
    }
  };
  const onInput = (event) => {
    text.value = event.currentTarget.value;
    at.value = 0;
  };
  const current = Math.min(at.value, found.length - 1);
  return html`<div class="picker">
    <input
      id=${id} type="text" role="combobox" autocomplete="off" placeholder=${placeholder} aria-label=${label}
      aria-expanded=${found.length > 0} aria-controls=${list} aria-autocomplete="list"
      aria-activedescendant=${found.length ? `${list}-${current}` : undefined}
      value=${text} onInput=${onInput} onKeyDown=${onKeyDown}
    />
    <ul id=${list} role="listbox" aria-label=${`${label}: matches`} hidden=${!found.length}>
      ${found.map((task, index) => html`<li
        key=${task.id} id=${`${list}-${index}`} role="option" aria-selected=${index === current}
        onMouseDown=${(event) => event.preventDefault()} onClick=${() => pick(task)}
      >
        <${Sign} word=${standing(task, lately.value)} />
        <span>${task.title}</span><span class="id">${task.id}</span>
      </li>`)}
    </ul>
  </div>`;
}

/** Several tasks, as removable chips. */
export function TasksPicked({ id, label, picked, onChange, without = [] }) {
  const drop = (gone) => onChange(picked.filter((each) => each !== gone));
  return html`<div>
    <div class="chips">
      ${picked.map((each) => html`<span key=${each} class="chip">
        ${tasks.value.get(each)?.title ?? each}
        <button type="button" class="plain" aria-label=${`Take ${each} away`} onClick=${() => drop(each)}>×</button>
      </span>`)}
    </div>
    <${TaskPicker} id=${id} label=${label} without=${[...picked, ...without]} onPick=${(task) => onChange([...picked, task])} />
  </div>`;
}
