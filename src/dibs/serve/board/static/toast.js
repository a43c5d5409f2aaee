// Short words about what was done or refused, said also to those who listen rather than look.

import { classes, html, signal } from "./ui.js";

const SHOWN = { good: 5000, bad: 12_000 };
const toasts = signal([]);
let next = 0;

/** `action` is {label, run}: a way to take it back, or to go on. */
export function say(text, { kind = "good", action } = {}) {
  const id = ++next;
  toasts.value = [...toasts.value.slice(-3), { id, text, kind, action }];
  setTimeout(() => dismiss(id), SHOWN[kind]);
}

export const complain = (error) => say(error.message || String(error), { kind: "bad" });

/** What was said of another scope is of no use in this one. */
export function hush() {
  toasts.value = [];
}

function dismiss(id) {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Do something that the server may refuse; what it says is shown. The answer, or undefined. */
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
