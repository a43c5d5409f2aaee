// The few names every view is written with, from one place.

import { h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { render };
export { useEffect, useLayoutEffect, useMemo, useRef } from "./vendor/hooks.js";
export { batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect } from "./vendor/signals.js";
export const html = htm.bind(h);

/** Class names, without those whose condition does not hold. */
export const classes = (...names) => names.filter(Boolean).join(" ");
