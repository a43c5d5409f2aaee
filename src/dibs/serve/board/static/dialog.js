// Dialogs: one at a time, with a few fields. A dialog stays open when the server refuses.

import { html, signal, useLayoutEffect, useRef, useSignal } from "./ui.js";
import { TasksPicked } from "./picker.js";

const open = signal(null);

/**
 * Open a dialog. `submit` gets the values by name; its errors are shown, and the user can correct the input.
 * Resolves to the result of `submit`, or to undefined if the dialog was canceled.
 */
export function ask(question) {
  return new Promise((resolve) => {
    open.value = { key: Math.random(), fields: [], submit: (values) => values, ...question, resolve };
  });
}

/** Let the user choose one of [key, words]. Resolves to the key or undefined. */
export const choose = ({ title, text, options }) => ask({ title, text, options });

export const asking = () => open.value !== null;

function closed(answer) {
  open.value.resolve(answer);
  open.value = null;
}

/** Ctrl+Enter, or ⌘ Enter, submits a form from any of its fields. */
export function submitsOnCtrlEnter(event) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
  event.preventDefault();
  event.currentTarget.requestSubmit();
}

export function Dialog() {
  return open.value && html`<${Asked} key=${open.value.key} question=${open.value} />`;
}

function Asked({ question }) {
  const box = useRef();
  const values = useSignal(Object.fromEntries(question.fields.map((field) => [field.name, field.value ?? ""])));
  const trouble = useSignal("");
  const busy = useSignal(false);
  useLayoutEffect(() => { // before the next key press
    const [dialog, before] = [box.current, document.activeElement];
    dialog.showModal();
    return () => {
      dialog.close(); // an open dialog keeps the focus
      before?.focus?.({ preventScroll: true });
    };
  }, []);
  const set = (name, value) => {
    values.value = { ...values.value, [name]: value };
  };
  const onSubmit = async (event) => {
    event.preventDefault();
    if (busy.value) return;
    busy.value = true;
    try {
      closed(await question.submit(values.value));
    } catch (error) {
      trouble.value = error.message;
      busy.value = false;
    }
  };
  const cancel = (event) => {
    event.preventDefault();
    closed(undefined);
  };
  return html`<dialog ref=${box} class=${question.wide ? "wide" : ""} aria-labelledby="asked" onCancel=${cancel}>
    <form onSubmit=${onSubmit} onKeyDown=${submitsOnCtrlEnter}>
      <h2 id="asked">${question.title}</h2>
      ${question.text && html`<p class="muted">${question.text}</p>`}
      <div class="fields">
        ${question.fields.map((field) => html`<${Field} key=${field.name} field=${field} value=${values.value[field.name]} set=${set} />`)}
      </div>
      ${question.options && html`<div class="offers">
        ${question.options.map(([key, words], index) => html`<button key=${key} type="button" autofocus=${index === 0} onClick=${() => closed(key)}>${words}</button>`)}
      </div>`}
      ${trouble.value && html`<p class="trouble" role="alert">${trouble}</p>`}
      <div class="buttons">
        <button type="button" onClick=${cancel}>${question.cancel ?? "Cancel"}</button>
        ${!question.options && html`<button type="submit" class=${question.danger ? "danger" : "primary"} disabled=${busy}>${question.confirm ?? "OK"}</button>`}
      </div>
    </form>
  </dialog>`;
}

function Field({ field, value, set }) {
  const id = `field-${field.name}`;
  const onInput = (event) => set(field.name, event.currentTarget.value);
  if (field.kind === "check") {
    const onChange = (event) => set(field.name, event.currentTarget.checked);
    return html`<label class="check"><input type="checkbox" checked=${value} onChange=${onChange} /> ${field.label}</label>`;
  }
  return html`<div class=${`field ${field.kind ?? "text"} ${field.half ? "half" : ""}`}>
    <label for=${id}>${field.label}</label>
    ${control(field, value, { id, onInput }, set)}
    ${field.hint && html`<small class="muted">${field.hint}</small>`}
  </div>`;
}

function control(field, value, common, set) {
  const { kind, required, options = [], name, label } = field;
  if (kind === "area") return html`<textarea ...${common} rows=${field.rows ?? 4} required=${required} value=${value}></textarea>`;
  if (kind === "tasks") {
    return html`<${TasksPicked} id=${common.id} label=${label} picked=${value || []} without=${field.without} onChange=${(picked) => set(name, picked)} />`;
  }
  if (kind === "choice") {
    return html`<select ...${common} value=${value} onChange=${common.onInput}>
      ${options.map(([each, word]) => html`<option value=${each} selected=${each === value}>${word}</option>`)}
    </select>`;
  }
  const list = options.length ? `${common.id}-options` : undefined;
  return html`<input
      ...${common} type=${kind === "number" ? "number" : "text"} step="any" required=${required}
      value=${value} list=${list} autocomplete="off" maxlength=${field.most}
    />
    ${list && html`<datalist id=${list}>${options.map((each) => html`<option value=${each} />`)}</datalist>`}`;
}
