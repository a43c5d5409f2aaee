// The names that every view imports.

import { h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { render };
export { useEffect, useLayoutEffect, useMemo, useRef } from "./vendor/hooks.js";
export { batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect } from "./vendor/signals.js";
export const html = htm.bind(h);

/** Class names; false ones are dropped. */
export const classes = (...names) => names.filter(Boolean).join(" ");
