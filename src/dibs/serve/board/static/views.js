// Named views: addresses with filters and order, stored for all users of the scope.

import { named } from "./actions.js";
import { ask } from "./dialog.js";
import { get, put, remove, viewPath } from "./server.js";
import { openAddress, viewAddress } from "./route.js";
import { say } from "./toast.js";
import { signal } from "./ui.js";

export const views = signal([]);

export async function readViews() {
  views.value = (await get("/views")).views;
}

export const openView = (view) => openAddress(view.address);

/** The current named view, if any. */
export const shownView = () => views.value.find((view) => view.address === viewAddress());

export async function saveView() {
  if (!(await named())) return;
  await ask({
    title: "Save this view",
    text: "Its filters, order and grouping are kept in the store under a name. All users of this scope see it.",
    fields: [{ name: "name", label: "Name", required: true, most: 60, value: shownView()?.name }],
    confirm: "Save",
    submit: async ({ name }) => {
      await put(viewPath(name.trim()), { address: viewAddress() });
      await readViews();
      say(`Saved the view ${name.trim()}.`);
    },
  });
}

export async function deleteView(view) {
  if (!(await named())) return;
  await remove(viewPath(view.name));
  await readViews();
  say(`Deleted the view ${view.name}.`, { action: { label: "Undo", run: () => put(viewPath(view.name), { address: view.address }).then(readViews) } });
}
