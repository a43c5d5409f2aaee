// The layout of the graph: layers from left to right, few crossings, short links.
// A pure function from the server's graph to positions; linear in its size for each of a few sweeps.

export const WIDTH = 152;
export const HEIGHT = 58;
const GAP_X = 44;
const GAP_Y = 16;
const BEND = 12; // the height of a link where it passes a layer
const SWEEPS = 8;
const LONGEST = 8; // layers that a link may bend through, in graphs of
const MANY = 800; // links and more; longer links are straight
const TALLEST = 60; // tasks in a column; larger layers have several
const LOOSE_ACROSS = 6; // columns of tasks without links, below the rest

export function laidOut({ tasks, links, layers, critical_path: path }) {
  const nodes = new Map(tasks.map((task) => [task.id, { id: task.id, task, before: [], after: [], width: WIDTH, height: HEIGHT }]));
  const edges = edgesOf(nodes, links, new Set(path.slice(1).map((id, index) => `${path[index]}\n${id}`)));
  for (const edge of edges) {
    edge.from.after.push(edge.to);
    edge.to.before.push(edge.from);
  }
  for (const id of path) if (nodes.has(id)) nodes.get(id).critical = true;
  const linked = (node) => node && (node.before.length || node.after.length);
  const rows = layers.map((layer) => layer.map((id) => nodes.get(id)).filter(linked)).filter((layer) => layer.length);
  rows.forEach((layer, index) => layer.forEach((node) => { node.layer = index; }));
  const drawn = edges.filter((edge) => edge.from.layer !== undefined && edge.to.layer !== undefined);
  lead(drawn, rows);
  order(rows);
  const columns = placed(rows);
  for (const edge of drawn) Object.assign(edge, reachOf(edge));
  const loose = [...nodes.values()].filter((node) => !linked(node));
  columns.push(...placeLoose(loose, bottom(columns)));
  return { nodes, edges: drawn, columns, box: boxOf(columns) };
}

/** Pairs of prerequisite and dependent task; a subtask and its parent are a pair too. */
function edgesOf(nodes, links, critical) {
  const said = links
    .filter((link) => link.kind !== "parallel_ok")
    .map((link) => ({ from: nodes.get(link.on), to: nodes.get(link.task), kind: link.kind }));
  const parts = [...nodes.values()]
    .filter((node) => nodes.has(node.task.parent))
    .map((node) => ({ from: node, to: nodes.get(node.task.parent), kind: "part" }));
  const edges = [...said, ...parts].filter((edge) => edge.from && edge.to);
  for (const edge of edges) edge.critical = critical.has(`${edge.from.id}\n${edge.to.id}`);
  return edges;
}

/** Give a link that skips layers a bend in each, so that it passes around the tasks there. */
function lead(edges, rows) {
  const longest = edges.length < MANY ? Infinity : LONGEST;
  for (const edge of edges) {
    edge.bends = [];
    const length = edge.to.layer - edge.from.layer;
    let last = edge.from;
    for (let layer = edge.from.layer + 1; layer < edge.to.layer && length <= longest; layer += 1) {
      const bend = { bend: true, layer, left: [last], right: [], height: BEND, width: WIDTH };
      (last.right ??= []).push(bend);
      rows[layer].push(bend);
      edge.bends.push(bend);
      last = bend;
    }
    (last.right ??= []).push(edge.to);
    (edge.to.left ??= []).push(last);
  }
}

const mean = (items, of) => items.reduce((sum, item) => sum + of(item), 0) / items.length;

/** Sort each layer by the position of its neighbours, in alternating sweeps, to reduce crossings. */
function order(rows) {
  const number = (row) => row.forEach((item, index) => { item.rank = index; });
  rows.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forward = sweep % 2 === 0;
    const turn = forward ? rows : [...rows].reverse();
    for (const row of turn) {
      for (const item of row) {
        const near = (forward ? item.left : item.right) ?? [];
        item.wish = near.length ? mean(near, (other) => other.rank / rows[other.layer].length) : item.rank / row.length;
      }
      row.sort((a, b) => a.wish - b.wish || a.rank - b.rank);
      number(row);
    }
  }
}

/** Columns of items with positions. Neighbours are aligned; items keep their order and do not overlap. */
function placed(rows) {
  const columns = [];
  for (const row of rows) columns.push(...split(row));
  columns.forEach((column, index) => {
    let y = 0;
    for (const item of column) {
      item.x = index * (WIDTH + GAP_X);
      item.y = y;
      y += item.height + gap(item);
    }
    column.forEach((item) => { item.y -= y / 2; });
  });
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const column of sweep % 2 ? [...columns].reverse() : columns) level(column);
  }
  return columns;
}

function split(row) {
  const parts = Math.max(1, Math.ceil(row.filter((item) => !item.bend).length / TALLEST));
  const size = Math.ceil(row.length / parts);
  return Array.from({ length: parts }, (_, part) => row.slice(part * size, (part + 1) * size)).filter((part) => part.length);
}

const gap = (item) => (item.bend ? 4 : GAP_Y);
const middle = (item) => item.y + item.height / 2;

/** The positions nearest to the wanted ones that keep order and distance: an isotonic regression. */
function level(column) {
  let offset = 0;
  const blocks = [];
  for (const item of column) {
    const near = [...(item.left ?? []), ...(item.right ?? [])];
    const wish = (near.length ? mean(near, middle) - item.height / 2 : item.y) - offset;
    item.offset = offset;
    offset += item.height + gap(item);
    let block = { sum: wish, items: [item] };
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).items.length > block.sum / block.items.length) {
      const before = blocks.pop();
      block = { sum: before.sum + block.sum, items: [...before.items, ...block.items] };
    }
    blocks.push(block);
  }
  for (const block of blocks) for (const item of block.items) item.y = block.sum / block.items.length + item.offset;
}

const bottom = (columns) => (columns.length ? Math.max(...columns.flat().map((item) => item.y + item.height)) + 3 * HEIGHT : 0);

/** The vertical extent of a link, to skip invisible ones. */
function reachOf({ from, to, bends }) {
  const ys = [from.y, to.y, ...bends.map((bend) => bend.y)];
  return { top: Math.min(...ys), bottom: Math.max(...ys) + HEIGHT };
}

function placeLoose(loose, top) {
  const across = Math.max(LOOSE_ACROSS, Math.ceil(Math.sqrt(loose.length / 3)));
  const columns = Array.from({ length: Math.min(across, loose.length) }, () => []);
  loose.forEach((node, index) => {
    node.x = (index % across) * (WIDTH + GAP_X / 3);
    node.y = top + Math.floor(index / across) * (HEIGHT + GAP_Y);
    columns[index % across].push(node);
  });
  return columns;
}

function boxOf(columns) {
  const all = columns.flat();
  if (!all.length) return { x: 0, y: 0, width: 1, height: 1 };
  const x = Math.min(...all.map((item) => item.x));
  const y = Math.min(...all.map((item) => item.y));
  return {
    x,
    y,
    width: Math.max(...all.map((item) => item.x + item.width)) - x,
    height: Math.max(...all.map((item) => item.y + item.height)) - y,
  };
}

/** The task at a position, with a margin on the right where links begin. */
export function nodeAt({ columns }, x, y, margin = 0) {
  for (const column of columns) {
    const left = column[0].x;
    if (x < left || x > left + WIDTH + margin) continue;
    const found = column.find((item) => !item.bend && y >= item.y && y <= item.y + HEIGHT);
    if (found) return found;
  }
  return null;
}

/** All prerequisites and dependents of a task, direct or not. */
export function related(node) {
  const reach = (start, next) => {
    const found = new Set();
    const queue = [start];
    while (queue.length) {
      for (const other of next(queue.pop())) {
        if (!found.has(other)) {
          found.add(other);
          queue.push(other);
        }
      }
    }
    return found;
  };
  return { before: reach(node, (each) => each.before), after: reach(node, (each) => each.after) };
}
