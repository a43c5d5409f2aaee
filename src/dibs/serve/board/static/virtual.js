// Virtual lists: only visible rows are in the page. Rows may differ in height; drawn rows are measured.

import { html, useLayoutEffect, useRef, useSignal } from "./ui.js";

const BEYOND = 500; // pixels drawn above and below the visible part

/**
 * A list of `items`, each with an `id`, drawn by `draw(item, index)` as one element with `data-id`. `estimate` is the height of an unmeasured row with its gap. `end` follows the last row; `onEnd` is called near it.
 */
export function Rows({ items, draw, estimate, gap = 0, name = "", before = null, end = null, onEnd, ...rest }) {
  const list = useRef();
  const heights = useRef(new Map()).current;
  const view = useSignal({ top: 0, height: 900 });
  const measured = useSignal(0);
  measured.value;
  const offsets = placed(items, heights, estimate);
  const { top, height } = view.value;
  const first = Math.max(0, above(offsets, top - BEYOND));
  const last = Math.min(items.length, above(offsets, top + height + BEYOND) + 1);
  const look = () => {
    const { scrollTop, clientHeight } = list.current;
    if (Math.abs(scrollTop - view.peek().top) > BEYOND / 3 || clientHeight !== view.peek().height) view.value = { top: scrollTop, height: clientHeight };
  };
  useLayoutEffect(() => {
    list.current.rows = {
      items,
      reveal: (index) => {
        const { scrollTop, clientHeight } = list.current;
        const [begin, finish] = [offsets[index], offsets[index + 1]];
        if (begin < scrollTop) list.current.scrollTop = begin - gap;
        else if (finish > scrollTop + clientHeight) list.current.scrollTop = finish - clientHeight + gap;
        look();
      },
    };
    look();
    if (measure(list.current, heights, gap)) measured.value += 1;
    if (onEnd && last >= items.length) onEnd();
  });
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(look);
    watcher.observe(list.current);
    return () => watcher.disconnect();
  }, []);
  const bottom = offsets[items.length] - offsets[last];
  const room = { "--above": `${offsets[first]}px`, "--below": `${bottom}px` };
  return html`<ul class=${`rows ${name}`} ref=${list} style=${room} onScroll=${look} ...${rest}>
    ${before}
    ${items.slice(first, last).map((item, index) => draw(item, first + index))}
    ${last >= items.length && end}
  </ul>`;
}

/** The offset of each row, then of the end. */
function placed(items, heights, estimate) {
  const offsets = new Float64Array(items.length + 1);
  for (let index = 0; index < items.length; index += 1) offsets[index + 1] = offsets[index] + (heights.get(items[index].id) ?? estimate);
  return offsets;
}

/** The last row that begins at or above a position. */
function above(offsets, place) {
  let [low, high] = [0, offsets.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (offsets[middle] <= place) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Measure the drawn rows. Returns whether a height changed. */
function measure(list, heights, gap) {
  let changed = false;
  for (const row of list.children) {
    const { id } = row.dataset;
    if (id === undefined) continue;
    const height = row.offsetHeight + gap;
    if (heights.get(id) !== height) {
      heights.set(id, height);
      changed = true;
    }
  }
  return changed;
}
