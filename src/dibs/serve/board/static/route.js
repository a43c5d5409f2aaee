// The address holds the state of the page, so that reloads, bookmarks and shared links show the same.

import { signal } from "./ui.js";

export const VIEWS = ["board", "needs", "list", "graph", "timeline", "agents", "trends", "chat"];

export const route = signal(parsed(location.hash));

window.addEventListener("hashchange", () => {
  route.value = parsed(location.hash);
});

function parsed(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const asked = Object.fromEntries(new URLSearchParams(query));
  return { view: VIEWS.includes(path) ? path : "board", ...asked };
}

function address({ view, ...rest }) {
  const said = Object.entries(rest).filter(([, value]) => value);
  const query = new URLSearchParams(said).toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

/** Navigate, as a step in the history. */
export function go(changes) {
  const next = { ...route.value, ...changes };
  if (address(next) === address(route.value)) return;
  history.pushState(null, "", address(next));
  route.value = parsed(location.hash);
}

/** The address of this view without scope and open task, for named views. */
export const viewAddress = () => address({ ...route.value, scope: "", task: "" });

/** Open the address of a named view in the current scope. */
export function openAddress(kept) {
  const next = parsed(kept);
  go({ ...Object.fromEntries(Object.keys(route.value).map((name) => [name, ""])), ...next, scope: route.value.scope ?? "" });
}

/** Navigate without a step in the history, for changes with every letter. */
export function adjust(changes) {
  history.replaceState(null, "", address({ ...route.value, ...changes }));
  route.value = parsed(location.hash);
}

window.addEventListener("popstate", () => {
  route.value = parsed(location.hash);
});

/** An address for links. */
export const linkTo = (changes) => address({ ...route.value, ...changes });
