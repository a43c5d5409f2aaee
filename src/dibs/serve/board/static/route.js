// Where the page stands, kept in the address: a reload, a bookmark or a link to a colleague leads to the same place.

import { signal } from "./ui.js";

export const VIEWS = ["board", "graph", "agents", "chat"];

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

/** Go somewhere: a step that the back button takes back. */
export function go(changes) {
  const next = { ...route.value, ...changes };
  if (address(next) === address(route.value)) return;
  history.pushState(null, "", address(next));
  route.value = parsed(location.hash);
}

/** The same without a step of its own, for what changes with every letter. */
export function adjust(changes) {
  history.replaceState(null, "", address({ ...route.value, ...changes }));
  route.value = parsed(location.hash);
}

window.addEventListener("popstate", () => {
  route.value = parsed(location.hash);
});

/** The address of another place, for links. */
export const linkTo = (changes) => address({ ...route.value, ...changes });
