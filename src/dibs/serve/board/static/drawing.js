// Paint the graph on a canvas. Invisible parts are skipped; at a small scale, a task is only a coloured mark.

import { HEIGHT, WIDTH } from "./layout.js";
import { initials } from "./words.js";

const DETAIL = 0.4; // scale from which on titles are readable
const NAMES = { ground: "--ground", surface: "--surface", line: "--line-strong", ink: "--ink", soft: "--soft", accent: "--accent", ready: "--ready", work: "--work", needs: "--needs", bad: "--bad", quiet: "--quiet", wash: "--accent-wash" };
const COLOUR = { ready: "ready", active: "work", done: "work", review: "needs", expired: "needs", blocked: "bad", escalated: "bad" };

export function palette() {
  const style = getComputedStyle(document.documentElement);
  const found = Object.fromEntries(Object.entries(NAMES).map(([name, key]) => [name, style.getPropertyValue(key).trim()]));
  return { ...found, sans: style.getPropertyValue("--sans"), mono: style.getPropertyValue("--mono") };
}

export const colourOf = (word, colours) => colours[COLOUR[word] ?? "quiet"];

/** `look` has the highlights: near (a set; the rest is dimmed), chosen, matches, circle, pulling. */
export function paint(context, graph, view, look, colours) {
  const { scale, x, y, width, height, ratio } = view;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * x, ratio * y);
  const seen = { left: -x / scale, top: -y / scale, right: (width - x) / scale, bottom: (height - y) / scale };
  paintEdges(context, graph.edges, seen, look, colours, scale);
  for (const column of graph.columns) {
    const left = column[0].x;
    if (left > seen.right || left + WIDTH < seen.left) continue;
    for (const node of column) {
      if (!node.bend && node.y < seen.bottom && node.y + HEIGHT > seen.top) paintNode(context, node, look, colours, scale);
    }
  }
  if (look.pulling) paintPull(context, look.pulling, colours, scale);
}

// Links

/** Links of the same style are one path: one stroke each takes ten times as long. */
function paintEdges(context, edges, seen, look, colours, scale) {
  const groups = new Map();
  for (const edge of edges) {
    if (outOfSight(edge, seen)) continue;
    const kind = edgeLook(edge, look);
    if (!groups.has(kind)) groups.set(kind, []);
    groups.get(kind).push(edge);
  }
  const thin = Math.max(1.2, 0.7 / scale);
  const LOOKS = {
    dim: [colours.quiet, thin, 0.15, []],
    plain: [colours.quiet, thin, 0.5, []],
    feeds: [colours.quiet, thin, 0.5, [5, 4]],
    critical: [colours.accent, thin * 1.9, 0.9, []],
    near: [colours.ink, thin * 1.4, 0.8, []],
    circle: [colours.bad, thin * 2, 1, []],
  };
  for (const kind of ["dim", "plain", "feeds", "critical", "near", "circle"]) {
    if (!groups.has(kind)) continue;
    const [colour, size, alpha, dash] = LOOKS[kind];
    context.strokeStyle = colour;
    context.lineWidth = size;
    context.globalAlpha = alpha;
    context.setLineDash(dash);
    context.beginPath();
    for (const edge of groups.get(kind)) trace(context, edge, scale);
    context.stroke();
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
  if (scale >= DETAIL) paintHeads(context, groups, LOOKS);
}

function edgeLook(edge, { near, circle }) {
  if (circle?.has(edge.from.id) && circle.has(edge.to.id)) return "circle";
  if (near) return near.has(edge.from) && near.has(edge.to) ? (edge.critical ? "critical" : "near") : "dim";
  if (edge.critical) return "critical";
  return edge.kind === "blocks" ? "plain" : "feeds";
}

const outOfSight = ({ from, to, top, bottom }, seen) =>
  from.x > seen.right || to.x + WIDTH < seen.left || top > seen.bottom || bottom < seen.top;

function trace(context, { from, to, bends }, scale) {
  let [x, y] = [from.x + WIDTH, from.y + HEIGHT / 2];
  context.moveTo(x, y);
  for (const stop of [...bends, to]) {
    const [nextX, nextY] = [stop.x, stop.y + stop.height / 2];
    if (scale < 0.12) context.lineTo(nextX, nextY);
    else curve(context, x, y, nextX, nextY);
    x = nextX;
    y = nextY;
    if (stop.bend) {
      x += WIDTH;
      context.lineTo(x, y);
    }
  }
}

function curve(context, x, y, nextX, nextY) {
  const pull = Math.max(24, (nextX - x) / 2);
  context.bezierCurveTo(x + pull, y, nextX - pull, nextY, nextX, nextY);
}

function paintHeads(context, groups, looks) {
  for (const [kind, edges] of groups) {
    context.fillStyle = looks[kind][0];
    context.globalAlpha = looks[kind][2];
    context.beginPath();
    for (const { to } of edges) {
      const [x, y] = [to.x, to.y + HEIGHT / 2];
      context.moveTo(x, y);
      context.lineTo(x - 7, y - 4);
      context.lineTo(x - 7, y + 4);
    }
    context.fill();
  }
  context.globalAlpha = 1;
}

// Tasks

function paintNode(context, node, look, colours, scale) {
  const { near, chosen, over, matches, circle } = look;
  const faint = (near && !near.has(node)) || (matches && !matches.has(node.id));
  context.globalAlpha = faint ? 0.28 : 1;
  const colour = colourOf(node.word, colours);
  const finished = node.word === "done" || node.word === "canceled";
  if (scale < DETAIL) {
    context.fillStyle = node.critical && !near ? colours.accent : colour;
    if (finished) context.globalAlpha *= 0.45;
    context.fillRect(node.x, node.y, WIDTH, HEIGHT);
  } else {
    box(context, node, colours, finished);
    context.strokeStyle = circle?.has(node.id) ? colours.bad : node.id === chosen || node.critical ? colours.accent : colours.line;
    context.lineWidth = node.id === chosen ? 2.5 : node.critical ? 1.8 : 1;
    context.stroke();
    paintText(context, node, colours, finished);
    if (node === over) paintHandle(context, node, colours);
  }
  if (scale < DETAIL && (node.id === chosen || node === over)) {
    context.strokeStyle = colours.ink;
    context.lineWidth = 2 / scale;
    context.strokeRect(node.x, node.y, WIDTH, HEIGHT);
  }
  context.globalAlpha = 1;
}

function box(context, node, colours, finished) {
  context.beginPath();
  context.roundRect(node.x, node.y, WIDTH, HEIGHT, 9);
  context.fillStyle = finished ? colours.ground : colours.surface;
  context.fill();
}

function paintText(context, node, colours, finished) {
  const lines = fitted(context, node, colours);
  const middle = node.y + HEIGHT / 2;
  paintSign(context, node.word, node.x + 15, middle, colours);
  context.fillStyle = finished ? colours.soft : colours.ink;
  context.font = `500 12px ${colours.sans}`;
  context.textBaseline = "middle";
  lines.forEach((text, index) => context.fillText(text, node.x + 28, middle + (index - (lines.length - 1) / 2) * 15));
  if (node.task.lease) paintFace(context, node.task.lease, node.x + WIDTH - 16, middle, colours);
}

/** The holder's initials: square for an agent, round for a person. */
function paintFace(context, lease, x, y, colours) {
  context.beginPath();
  context.roundRect(x - 9, y - 9, 18, 18, lease.holder === "human" ? 9 : 5);
  context.fillStyle = colours.wash;
  context.fill();
  context.fillStyle = colours.accent;
  context.font = `700 9px ${colours.sans}`;
  context.textAlign = "center";
  context.fillText(initials(lease.agent), x, y + 0.5);
  context.textAlign = "start";
}

/** The title in up to three lines; measured once. */
function fitted(context, node, colours) {
  const room = WIDTH - (node.task.lease ? 56 : 38);
  if (node.fittedOf === `${room} ${node.task.title}`) return node.fitted;
  context.font = `500 12px ${colours.sans}`;
  const fits = (text) => context.measureText(text).width <= room;
  const words = node.task.title.slice(0, 120).split(/\s+/);
  const lines = [];
  while (words.length && lines.length < 3) {
    let line = words.shift();
    while (words.length && (lines.length === 2 || fits(`${line} ${words[0]}`))) line += ` ${words.shift()}`;
    lines.push(cut(line, fits));
  }
  node.fitted = lines;
  node.fittedOf = `${room} ${node.task.title}`;
  return lines;
}

function cut(text, fits) {
  if (fits(text)) return text;
  let kept = text;
  while (kept.length > 1 && !fits(`${kept}…`)) kept = kept.slice(0, -1);
  return `${kept.trimEnd()}…`;
}

/** The status signs of the board, as strokes. */
function paintSign(context, word, x, y, colours) {
  const colour = colourOf(word, colours);
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.lineWidth = 1.5;
  context.setLineDash(word === "backlog" ? [2, 2] : []);
  context.beginPath();
  context.arc(x, y, 5.2, 0, 7);
  if (["done", "blocked", "escalated"].includes(word)) context.fill();
  else context.stroke();
  context.setLineDash([]);
  STROKES[word]?.(context, x, y, colours);
}

const line = (context, ...points) => {
  context.beginPath();
  points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
};

const inside = (draw) => (context, x, y, colours) => {
  context.strokeStyle = colours.surface;
  draw(context, x, y);
};

const STROKES = {
  active: (context, x, y) => { context.beginPath(); context.arc(x, y, 3.2, -Math.PI / 2, Math.PI / 2); context.fill(); },
  review: (context, x, y) => { context.beginPath(); context.arc(x, y, 2.2, 0, 7); context.fill(); },
  waiting: (context, x, y) => [-2.4, 0, 2.4].forEach((at) => context.fillRect(x + at - 0.6, y - 0.6, 1.2, 1.2)),
  later: (context, x, y) => line(context, [x, y - 2.6], [x, y], [x + 1.8, y + 1]),
  expired: (context, x, y) => line(context, [x, y - 2.6], [x, y + 1]),
  paused: (context, x, y) => { line(context, [x - 1.4, y - 2], [x - 1.4, y + 2]); line(context, [x + 1.4, y - 2], [x + 1.4, y + 2]); },
  canceled: (context, x, y) => { line(context, [x - 2, y - 2], [x + 2, y + 2]); line(context, [x + 2, y - 2], [x - 2, y + 2]); },
  done: inside((context, x, y) => line(context, [x - 2.4, y], [x - 0.6, y + 1.8], [x + 2.4, y - 1.8])),
  blocked: inside((context, x, y) => line(context, [x - 2.4, y], [x + 2.4, y])),
  escalated: inside((context, x, y) => line(context, [x, y - 2.6], [x, y + 1])),
};

/** Where a link begins. */
function paintHandle(context, node, colours) {
  context.beginPath();
  context.arc(node.x + WIDTH, node.y + HEIGHT / 2, 6, 0, 7);
  context.fillStyle = colours.accent;
  context.fill();
}

function paintPull(context, { from, x, y, bad }, colours, scale) {
  context.strokeStyle = bad ? colours.bad : colours.accent;
  context.lineWidth = Math.max(2, 1.5 / scale);
  context.beginPath();
  context.moveTo(from.x + WIDTH, from.y + HEIGHT / 2);
  curve(context, from.x + WIDTH, from.y + HEIGHT / 2, x, y);
  context.stroke();
}

/** The minimap, painted once per layout; the frame of the visible part is drawn over it. */
export function paintSmall(context, graph, size, colours) {
  const scale = Math.min(size.width / graph.box.width, size.height / graph.box.height) * 0.92;
  const [x, y] = [(size.width - graph.box.width * scale) / 2 - graph.box.x * scale, (size.height - graph.box.height * scale) / 2 - graph.box.y * scale];
  for (const column of graph.columns) {
    for (const node of column) {
      if (node.bend) continue;
      context.fillStyle = node.critical ? colours.accent : colourOf(node.word, colours);
      context.globalAlpha = node.word === "done" || node.word === "canceled" ? 0.4 : 1;
      context.fillRect(x + node.x * scale, y + node.y * scale, Math.max(1.5, WIDTH * scale), Math.max(1.2, HEIGHT * scale));
    }
  }
  context.globalAlpha = 1;
  return { scale, x, y };
}
