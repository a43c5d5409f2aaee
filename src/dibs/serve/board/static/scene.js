// Pointer and keyboard on the canvas: panning, zooming, hovering, and drawing links between tasks.

import { paint, paintSmall, palette } from "./drawing.js";
import { HEIGHT, WIDTH, nodeAt, related } from "./layout.js";

const [CLOSEST, FARTHEST] = [2, 0.02];
const LARGEST = 1.3; // the largest scale of a small graph
const READABLE = 0.6; // the scale at which titles are readable on a phone
const FEW = 200; // tasks; larger graphs start with an overview
const CLICK = 4; // pixels that a click may move
const HANDLE = 10; // radius of the handle of a link

/** `on` has the callbacks open(id), link(task, on) and hover(node, place). */
export class Scene {
  constructor(canvas, minimap, on) {
    Object.assign(this, { canvas, minimap, on, graph: null, colours: palette(), look: {}, press: null });
    this.view = { scale: 1, x: 0, y: 0, width: 1, height: 1, ratio: 1 };
    const listen = (target, name, act, options) => {
      target.addEventListener(name, act.bind(this), options);
    };
    listen(canvas, "pointerdown", this.pressed);
    listen(canvas, "pointermove", this.moved);
    listen(canvas, "pointerup", this.released);
    listen(canvas, "pointercancel", this.released);
    listen(canvas, "pointerleave", () => this.point(null));
    listen(canvas, "wheel", this.wheeled, { passive: false });
    listen(canvas, "keydown", this.keyed);
    listen(minimap, "pointerdown", this.jumped);
    this.sizes = new ResizeObserver(() => this.sized());
    this.sizes.observe(canvas);
  }

  close() {
    this.sizes.disconnect();
    cancelAnimationFrame(this.frame);
  }

  show(graph, { fit = false } = {}) {
    this.graph = graph;
    this.small = null;
    this.look = { ...this.look, over: null, near: null };
    if (fit) this.begin();
    this.redraw();
  }

  /** Highlights set by others: chosen, matches, circle. */
  set(look) {
    this.look = { ...this.look, ...look };
    this.redraw();
  }

  recolour() {
    this.colours = palette();
    this.small = null;
    this.redraw();
  }

  sized() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    Object.assign(this.view, { width, height, ratio });
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    if (this.wantsFit) this.begin();
    this.draw();
  }

  redraw() {
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = undefined;
    if (!this.graph) return;
    paint(this.canvas.getContext("2d"), this.graph, this.view, this.look, this.colours);
    this.canvas.dataset.drawn = this.graph.nodes.size;
    this.drawSmall();
  }

  // The visible part

  /** Show the whole graph; if a small graph would be unreadable, its next critical task. */
  begin() {
    this.fit();
    const { nodes } = this.graph;
    const [next] = [...nodes.values()].filter((node) => node.critical).sort((a, b) => a.x - b.x);
    if (!this.wantsFit && next && nodes.size <= FEW && this.view.scale < READABLE) this.center(next, READABLE);
  }

  /** Show the whole graph at the top, a small one enlarged. */
  fit() {
    const { width, height } = this.view;
    this.wantsFit = width < 2;
    if (!this.graph || this.wantsFit) return;
    const { box } = this.graph;
    const [top, side] = [64, 28];
    const scale = Math.min(LARGEST, (width - 2 * side) / box.width, (height - top - side) / box.height);
    const [spareX, spareY] = [width - 2 * side - box.width * scale, height - top - side - box.height * scale];
    this.lookAt(scale, side + spareX / 2 - box.x * scale, top + spareY / 3 - box.y * scale);
  }

  lookAt(scale, x, y) {
    Object.assign(this.view, { scale: Math.max(FARTHEST, Math.min(CLOSEST, scale)), x, y });
    this.redraw();
  }

  zoom(factor, x = this.view.width / 2, y = this.view.height / 2) {
    const scale = Math.max(FARTHEST, Math.min(CLOSEST, this.view.scale * factor));
    const real = scale / this.view.scale;
    this.lookAt(scale, x - (x - this.view.x) * real, y - (y - this.view.y) * real);
  }

  /** Centre a task at a readable scale. */
  focus(id) {
    const node = this.graph?.nodes.get(id);
    if (!node) return;
    this.center(node, Math.max(0.8, this.view.scale));
    this.set({ chosen: id });
  }

  center(node, scale) {
    const { width, height } = this.view;
    this.lookAt(scale, width / 2 - (node.x + WIDTH / 2) * scale, height / 2 - (node.y + HEIGHT / 2) * scale);
  }

  // The pointer

  place(event) {
    const frame = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    return { x, y, inX: (x - this.view.x) / this.view.scale, inY: (y - this.view.y) / this.view.scale };
  }

  under({ inX, inY }) {
    return this.graph && nodeAt(this.graph, inX, inY, HANDLE);
  }

  pressed(event) {
    if (event.button !== 0) return;
    const place = this.place(event);
    const node = this.under(place);
    const onHandle = node && this.view.scale > 0.3 && place.inX > node.x + WIDTH - HANDLE;
    this.press = { ...place, node, start: { x: this.view.x, y: this.view.y }, pulling: onHandle };
    if (onHandle) this.tabooed = related(node).before;
    this.canvas.setPointerCapture(event.pointerId);
  }

  moved(event) {
    const place = this.place(event);
    if (!this.press) return this.point(this.under(place), place);
    if (this.press.pulling) return this.pull(place);
    const [dx, dy] = [place.x - this.press.x, place.y - this.press.y];
    if (!this.press.panning && Math.hypot(dx, dy) < CLICK) return undefined;
    this.press.panning = true;
    this.canvas.classList.add("panning");
    this.point(null);
    return this.lookAt(this.view.scale, this.press.start.x + dx, this.press.start.y + dy);
  }

  released(event) {
    const { press } = this;
    this.press = null;
    this.canvas.classList.remove("panning", "linking");
    if (!press) return;
    if (press.pulling) {
      const target = this.under(this.place(event));
      this.set({ pulling: null });
      if (event.type === "pointerup" && target && target !== press.node) this.on.link(target.id, press.node.id);
    } else if (!press.panning && press.node) this.on.open(press.node.id);
  }

  /** Draw a link: the task under the pointer would wait for the task where it began. */
  pull(place) {
    const target = this.under(place);
    const bad = Boolean(target) && (target === this.press.node || this.tabooed.has(target));
    this.canvas.classList.add("linking");
    this.set({ pulling: { from: this.press.node, x: place.inX, y: place.inY, bad }, over: target });
    this.on.hover(target === this.press.node ? null : target, place, { from: this.press.node, bad });
  }

  /** Hover over a task: highlight its prerequisites and dependents, dim the rest. */
  point(node, place) {
    if (node === this.look.over) return;
    this.canvas.classList.toggle("over", Boolean(node));
    if (!node) this.set({ over: null, near: null });
    else {
      const { before, after } = related(node);
      this.set({ over: node, near: new Set([node, ...before, ...after]) });
    }
    this.on.hover(node, place);
  }

  wheeled(event) {
    event.preventDefault();
    const { x, y } = this.place(event);
    this.zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) * 0.0022), x, y);
  }

  /** Arrow keys follow the links; plus, minus and 0 change the scale. */
  keyed(event) {
    const act = { "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), 0: () => this.fit() }[event.key];
    const way = { ArrowLeft: "before", ArrowRight: "after", ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (act) act();
    else if (event.key === "Enter" && this.look.chosen) this.on.open(this.look.chosen);
    else if (way !== undefined && !event.altKey) this.walk(way);
    else return;
    event.preventDefault();
  }

  walk(way) {
    const here = this.graph?.nodes.get(this.look.chosen);
    const first = this.graph?.columns[0]?.find((item) => !item.bend);
    const next = here ? this.beside(here, way) : first;
    if (!next) return;
    this.focus(next.id);
    this.on.walked(next);
  }

  beside(node, way) {
    if (typeof way === "string") return node[way][0];
    const column = this.graph.columns.find((items) => items.includes(node)).filter((item) => !item.bend);
    return column[column.indexOf(node) + way];
  }

  // The minimap

  drawSmall() {
    const { minimap } = this;
    const { ratio } = this.view;
    const size = { width: minimap.clientWidth, height: minimap.clientHeight };
    if (!size.width) return;
    if (!this.small) {
      const image = Object.assign(document.createElement("canvas"), { width: size.width * ratio, height: size.height * ratio });
      const context = image.getContext("2d");
      context.scale(ratio, ratio);
      this.small = { image, ...paintSmall(context, this.graph, size, this.colours) };
      Object.assign(minimap, { width: size.width * ratio, height: size.height * ratio });
    }
    const context = minimap.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, minimap.width, minimap.height);
    context.drawImage(this.small.image, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { scale, x, y, width, height } = this.view;
    const small = this.small;
    context.strokeStyle = this.colours.ink;
    context.lineWidth = 1.2;
    context.strokeRect(small.x - (x / scale) * small.scale, small.y - (y / scale) * small.scale, (width / scale) * small.scale, (height / scale) * small.scale);
  }

  jumped(event) {
    const frame = this.minimap.getBoundingClientRect();
    const { scale, width, height } = this.view;
    const inX = (event.clientX - frame.left - this.small.x) / this.small.scale;
    const inY = (event.clientY - frame.top - this.small.y) / this.small.scale;
    this.lookAt(scale, width / 2 - inX * scale, height / 2 - inY * scale);
  }
}
