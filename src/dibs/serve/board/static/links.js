// The links of a task in both directions, and their editing.

import { named } from "./actions.js";
import { post, remove } from "./server.js";
import { Sign } from "./icons.js";
import { TaskPicker } from "./picker.js";
import { linkTo } from "./route.js";
import { learn, tasks } from "./store.js";
import { lately } from "./time.js";
import { complain, say } from "./toast.js";
import { html, signal, useSignal } from "./ui.js";
import { KINDS, standing } from "./words.js";

/** The cycle, as ids, that the last refused link would have closed. The graph shows it. */
export const refusedCircle = signal(null);

/** Make `task` wait for `on`. The server refuses a cycle and names its path. */
export async function linked(task, on, kind = "blocks") {
  const link = { task, on, kind };
  if (!(await named())) return false;
  refusedCircle.value = null;
  try {
    await post("/links", { links: [link] });
    await learn([task, on]);
    say(`${task} ${KINDS[kind][0]} ${on} now.`, { action: { label: "Undo", run: () => unlinked(link) } });
    return true;
  } catch (error) {
    if (error.code === "CYCLE") refusedCircle.value = [task, on, ...(error.more.cycle ?? [])];
    complain(error);
    return false;
  }
}

export async function unlinked(link) {
  if (!(await named())) return;
  try {
    await remove("/links", { links: [{ task: link.task, on: link.on, kind: link.kind }] });
    await learn([link.task, link.on]);
  } catch (error) {
    complain(error);
  }
}

export function Links({ task, links }) {
  const forward = links.filter((link) => link.task === task.id);
  const back = links.filter((link) => link.on === task.id);
  const kinds = Object.keys(KINDS);
  return html`<section aria-label="Links">
    ${kinds.map((kind) => html`
      <${Group} key=${`f-${kind}`} name=${KINDS[kind][0]} links=${forward.filter((link) => link.kind === kind)} end="on" />
      <${Group} key=${`b-${kind}`} name=${KINDS[kind][1]} links=${back.filter((link) => link.kind === kind)} end="task" />`)}
    <${Adding} task=${task} links=${links} />
  </section>`;
}

const sentence = (text) => text[0].toUpperCase() + text.slice(1);

function Group({ name, links, end }) {
  if (!links.length) return null;
  return html`<h3>${sentence(name)}</h3>
    <ul class="links">${links.map((link) => html`<${Linked} key=${`${link.task} ${link.on}`} link=${link} id=${link[end]} />`)}</ul>`;
}

function Linked({ link, id }) {
  const other = tasks.value.get(id);
  const because = link.detected_by && !["explicit", "plan"].includes(link.detected_by) ? `found by ${link.detected_by}` : "";
  return html`<li>
    ${other && html`<${Sign} word=${standing(other, lately.value)} alone=${true} />`}
    <a href=${linkTo({ task: id })}>${other?.title ?? id}</a>
    <span class="muted">${because}</span>
    <button class="plain" aria-label=${`Remove the link with ${id}`} title="Remove this link" onClick=${() => unlinked(link)}>×</button>
  </li>`;
}

function Adding({ task, links }) {
  const way = useSignal("waits");
  const known = [task.id, ...links.flatMap((link) => [link.task, link.on])];
  const pick = (other) => (way.value === "waits" ? linked(task.id, other) : linked(other, task.id));
  return html`<div class="adding">
    <select aria-label="Kind of link" value=${way} onChange=${(event) => { way.value = event.currentTarget.value; }}>
      <option value="waits">Waits for</option>
      <option value="holds">Blocks</option>
    </select>
    <${TaskPicker} id="add-link" label="Link with a task" without=${known} onPick=${pick} placeholder="Link with a task…" />
  </div>`;
}
