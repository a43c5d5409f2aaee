// The form to add or edit a task.

import { named } from "./actions.js";
import { patch, post, taskPath } from "./server.js";
import { ask } from "./dialog.js";
import { go } from "./route.js";
import { agentNames, categories, take } from "./store.js";
import { say } from "./toast.js";
import { CLASSES } from "./words.js";

const listed = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);

function fields(task = {}) {
  return [
    { name: "title", label: "Title", required: true, value: task.title, most: 500 },
    { name: "description", label: "Description", kind: "area", rows: 5, value: task.description },
    { name: "priority", label: "Priority", kind: "number", half: true, value: task.priority ?? 2, required: true, hint: "Lower comes first." },
    { name: "service_class", label: "Class of service", kind: "choice", half: true, value: task.service_class ?? "standard", options: Object.entries(CLASSES) },
    { name: "category", label: "Category", half: true, value: task.category, options: categories.value },
    { name: "deliverable", label: "Deliverable", half: true, value: task.deliverable },
    { name: "labels", label: "Labels", half: true, value: (task.labels ?? []).join(", "), hint: "Words, with commas." },
    { name: "assigned_to", label: "Only for", half: true, value: task.assigned_to, options: agentNames.value, hint: "An agent's name." },
    { name: "requires", label: "Requires", half: true, value: (task.requires ?? []).join(", "), hint: "Capabilities, with commas." },
  ];
}

/** The body for the API: empty fields are left out, or cleared if they were set. */
function said(values, before) {
  const out = { title: values.title, description: values.description, service_class: values.service_class };
  out.priority = Number(values.priority);
  for (const name of ["requires", "labels"]) out[name] = listed(values[name]);
  for (const name of ["category", "deliverable", "assigned_to"]) {
    if (values[name]) out[name] = values[name];
    else if (before?.[name]) out[name] = null;
  }
  return out;
}

export async function addTask({ blockedBy = [] } = {}) {
  if (!(await named())) return;
  await ask({
    title: "New task",
    wide: true,
    confirm: "Add it",
    fields: [
      ...fields(),
      { name: "on", label: "Waits for", kind: "tasks", value: blockedBy },
      { name: "backlog", label: "Keep it in the backlog for now", kind: "check", value: false },
    ],
    submit: async (values) => {
      const draft = { ...said(values), ...(values.backlog ? { status: "backlog" } : {}) };
      const links = (values.on || []).map((on) => ({ task: "", on, kind: "blocks" }));
      const { tasks } = await post("/tasks", { tasks: [draft], links });
      take(tasks);
      say(`Added ${tasks[0].id}.`, { action: { label: "Open", run: () => go({ task: tasks[0].id }) } });
    },
  });
}

export async function editTask(task) {
  if (!(await named())) return;
  await ask({
    title: `Edit ${task.id}`,
    wide: true,
    confirm: "Save",
    fields: fields(task),
    submit: async (values) => {
      const wanted = said(values, task);
      const changes = Object.fromEntries(Object.entries(wanted).filter(([name, value]) => differs(task[name], value)));
      if (!Object.keys(changes).length) return;
      const { task: now } = await patch(taskPath(task.id), changes);
      take([now]);
    },
  });
}

const differs = (before, after) => JSON.stringify(before ?? empty(after)) !== JSON.stringify(after);
const empty = (like) => (Array.isArray(like) ? [] : typeof like === "string" ? "" : like);
