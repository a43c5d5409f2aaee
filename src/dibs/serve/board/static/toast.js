// Short messages about finished and refused actions, also for screen readers.

import { classes, html, signal } from "./ui.js";

const SHOWN = { good: 5000, bad: 12_000 };
const toasts = signal([]);
let next = 0;

/** `action` is {label, run}, such as an undo. */
export function say(text, { kind = "good", action } = {}) {
  const id = ++next;
  toasts.value = [...toasts.value.slice(-3), { id, text, kind, action }];
  setTimeout(() => dismiss(id), SHOWN[kind]);
}

export const complain = (error) => say(error.message || String(error), { kind: "bad" });

/** Remove the messages of another scope. */
export function hush() {
  toasts.value = [];
}

function dismiss(id) {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Run `work` and show the message of a refusal. Returns the answer or undefined. */
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    complain(error);
    return undefined;
  }
}

function Toast({ toast }) {
  const { action } = toast;
  const act = () => {
    dismiss(toast.id);
    action.run();
  };
  return html`<div class=${classes("toast", toast.kind)} role=${toast.kind === "bad" ? "alert" : "status"}>
    <p>${toast.text}</p>
    ${action && html`<button class="plain" onClick=${act}>${action.label}</button>`}
    <button class="plain close" aria-label="Dismiss" onClick=${() => dismiss(toast.id)}>×</button>
  </div>`;
}

export function Toasts() {
  return html`<div class="toasts">${toasts.value.map((toast) => html`<${Toast} key=${toast.id} toast=${toast} />`)}</div>`;
}
