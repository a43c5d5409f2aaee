// Questions to the person: one dialog at a time, with a few fields, that stays open when the server says no.

import { html, signal, useEffect, useRef, useSignal } from "./ui.js";
import { TasksPicked } from "./picker.js";

const open = signal(null);

/**
 * Ask, and do what was decided. `submit` gets the values by name; what it throws is shown and may be put right.
 * The answer is what `submit` gave, or undefined if the person thought better of it.
 */
export function ask(question) {
  return new Promise((resolve) => {
    open.value = { key: Math.random(), fields: [], submit: (values) => values, ...question, resolve };
  });
}

export const asking = () => open.value !== null;

function closed(answer) {
  open.value.resolve(answer);
  open.value = null;
}

export function Dialog() {
  return open.value && html`<${Asked} key=${open.value.key} question=${open.value} />`;
}

function Asked({ question }) {
  const box = useRef();
  const values = useSignal(Object.fromEntries(question.fields.map((field) => [field.name, field.value ?? ""])));
  const trouble = useSignal("");
  const busy = useSignal(false);
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => before?.focus?.();
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
    <form onSubmit=${onSubmit}>
      <h2 id="asked">${question.title}</h2>
      ${question.text && html`<p class="muted">${question.text}</p>`}
      <div class="fields">
        ${question.fields.map((field) => html`<${Field} key=${field.name} field=${field} value=${values.value[field.name]} set=${set} />`)}
      </div>
      ${trouble.value && html`<p class="trouble" role="alert">${trouble}</p>`}
      <div class="buttons">
        <button type="button" onClick=${cancel}>${question.cancel ?? "Cancel"}</button>
        <button type="submit" class=${question.danger ? "danger" : "primary"} disabled=${busy}>${question.confirm ?? "OK"}</button>
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
