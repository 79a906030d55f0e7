/** One uPlot: lines, axes, zoom and pan; the rest is drawn by marks.ts. */

import uPlot from "uplot";
import { cssColour } from "./dom";
import { day, digits, percent, scaleOf } from "./format";
import type { Layout, Line } from "./layout";
import { colour, dense } from "./marks";
import type { Graph } from "./model";
import type { State } from "./state";

export interface Hooks {
  under: (u: uPlot) => void;
  over: (u: uPlot) => void;
  moved: (u: uPlot) => void;
  ranged: (u: uPlot) => void;
  /** A box was drawn: its values, when it is more than a stretch of commits. */
  boxed: (low: number | null, high: number | null) => void;
}

export interface Near { line: Line; index: number; left: number; top: number }

export function make(graph: Graph, layout: Layout, state: State, host: HTMLElement, height: number, hooks: Hooks, sync?: string): uPlot {
  const soft = cssColour("--soft"), grid = cssColour("--line");
  const axis = { stroke: soft, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const options: uPlot.Options = {
    width: Math.max(280, host.clientWidth),
    height,
    legend: { show: false },
    padding: [12, 12, 0, 4],
    scales: {
      x: { time: false, ...(state.from !== null && state.to !== null ? { min: state.from, max: state.to } : {}) },
      y: { distr: state.log ? 3 : 1, range: (_u, min, max) => yRange(state, min, max) },
    },
    axes: [
      { ...axis, values: (u, splits) => splits.map((x) => (cut(u, x) ? "" : xLabel(graph, state, x))), space: 90 },
      { ...axis, ...(state.log ? { splits: (_u: uPlot, _axis: number, min: number, max: number) => logSplits(min, max), filter: (_u: uPlot, splits: number[]) => splits } : {}), values: (_u, splits) => splits.map((y) => (y === null ? "" : yLabel(layout, splits, y))), size: 62, label: unitLabel(layout), labelSize: 16, labelFont: "11px system-ui, sans-serif", labelGap: 0 },
    ],
    series: [{}, ...layout.lines.map((line) => lineOptions(line, state, dense(layout, line)))],
    cursor: {
      drag: { x: true, y: true, uni: BOX_PIXELS, setScale: false },
      points: { show: false },
      focus: { prox: 30 },
      ...(sync ? { sync: { key: sync } } : {}),
    },
    hooks: {
      drawAxes: [hooks.under],
      draw: [hooks.over],
      setCursor: [hooks.moved],
      setScale: [(u, key) => key === "x" && hooks.ranged(u)],
      setSelect: [(u) => select(u, hooks)],
    },
  };
  const made = new uPlot(options, joined(layout), host);
  wheelAndPan(made);
  return made;
}

/** Width of a commit's label with its date. */
const LABEL_PIXELS = 66;

/** A box higher than this many pixels chooses values too, not only commits. */
const BOX_PIXELS = 24;

function yRange(state: State, min: number | null, max: number | null): uPlot.Range.MinMax {
  if (state.low !== null && state.high !== null && !state.multiples) return [state.low, state.high];
  if (min === null || max === null) return [null, null];
  if (!state.log) return uPlot.rangeNum(min, max, 0.1, true);
  const room = Math.max((max / min) ** 0.1, 1.01);
  return [min / room, max * room];
}

/** Round values of a logarithmic axis: 1, 2 and 5 of each power of ten, or plain steps where it spans less than one. */
function logSplits(min: number, max: number): number[] {
  if (max / min < 8) {
    const raw = (max - min) / 5, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((one) => one >= raw * 0.999) ?? raw;
    const first = Math.ceil(min / step);
    return Array.from({ length: Math.max(0, Math.floor(max / step) - first + 1) }, (_, i) => (first + i) * step);
  }
  const found: number[] = [], fine = max / min < 1e4 ? [1, 2, 5] : [1];
  // Powers below and above these are 0 and infinity, which no factor of ten leaves again.
  for (let power = 10 ** Math.max(Math.floor(Math.log10(min)), -300); power <= Math.min(max, 1e300); power *= 10) found.push(...fine.map((m) => m * power).filter((y) => y >= min && y <= max));
  return found;
}

/** Shows what was drawn a box around. */
function select(u: uPlot, hooks: Hooks): void {
  const { left, top, width, height } = u.select, { clientWidth, clientHeight } = u.over;
  if (width < 4 && height < BOX_PIXELS) return;
  const all = (size: number, whole: number): boolean => size >= whole - 1;
  const tall = all(height, clientHeight);
  hooks.boxed(tall ? null : u.posToVal(top + height, "y"), tall ? null : u.posToVal(top, "y"));
  const { min, max } = u.scales["x"] ?? {};
  const across = width >= 4 && !all(width, clientWidth);
  if (across) u.setScale("x", { min: u.posToVal(left, "x"), max: u.posToVal(left + width, "x") });
  else if (min != null && max != null) u.setScale("x", { min, max });
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
}

/** Columns over one common x. A null of a line's own breaks it; where only another line has a point it goes on. */
export function joined(layout: Layout): uPlot.AlignedData {
  if (!layout.lines.length) return [[]];
  return uPlot.join(layout.lines.map((line) => broken(line) as uPlot.AlignedData));
}

function broken(line: Line): [number[], (number | null)[]] {
  if (!line.gaps.length) return [line.x, line.y];
  const x: number[] = [], y: (number | null)[] = [], after = new Set(line.gaps);
  line.x.forEach((at, i) => {
    x.push(at);
    y.push(line.y[i] ?? null);
    if (after.has(i)) {
      x.push((at + (line.x[i + 1] ?? at)) / 2);
      y.push(null);
    }
  });
  return [x, y];
}

function lineOptions(line: Line, state: State, many: boolean): uPlot.Series {
  return {
    label: line.series.series.metric,
    show: !state.hidden.includes(line.series.series.id),
    stroke: fade(colour(line.place), many ? 0.9 : 0.5),
    width: many ? 1 : 1.2,
    spanGaps: false,
    points: { show: !many, size: 5, fill: colour(line.place), stroke: colour(line.place), width: 0 },
  };
}

function fade(hex: string, alpha: number): string {
  return hex.startsWith("#") ? hex + Math.round(alpha * 255).toString(16).padStart(2, "0") : hex;
}

/** Whether a label at ``x`` would be cut off at the right edge. */
function cut(u: uPlot, x: number): boolean {
  const { min, max } = u.scales["x"] ?? {};
  const wide = u.bbox.width / (devicePixelRatio || 1);
  return min != null && max != null && max > min && wide > 0 && ((max - x) / (max - min)) * wide < LABEL_PIXELS / 2 - 12;
}

function xLabel(graph: Graph, state: State, x: number): string {
  if (state.x === "date") return day(x);
  if (state.x === "environment") return Number.isInteger(x) ? String(x + 1) : "";
  const { position, sha, at } = graph.revisions;
  let low = 0, high = position.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((position[middle] ?? 0) < x) low = middle + 1;
    else high = middle;
  }
  const i = low > 0 && Math.abs((position[low - 1] ?? 0) - x) < Math.abs((position[low] ?? 0) - x) ? low - 1 : low;
  return i >= 0 && sha[i] ? `${sha[i].slice(0, 7)}\n${day(at[i] ?? 0)}` : "";
}

function yLabel(layout: Layout, splits: number[], y: number): string {
  if (layout.relative) return percent(y, Math.abs((splits[1] ?? 0) - (splits[0] ?? 0)) < 0.01 ? 1 : 0);
  const top = Math.max(...splits.map(Math.abs));
  const [factor] = scaleOf(top, layout.unit);
  const step = Math.abs((splits[1] ?? 0) - (splits[0] ?? 0)) || top || 1;
  const figures = Math.max(2, Math.min(6, Math.ceil(Math.log10(top / step)) + 1));
  return digits(Number((y / factor).toPrecision(figures + 1)), figures);
}

function unitLabel(layout: Layout): string {
  if (layout.relative) return "change";
  const every = layout.lines.flatMap((line) => line.y.filter((y): y is number => y !== null));
  const [, name] = scaleOf(every.reduce((top, y) => Math.max(top, Math.abs(y)), 0), layout.unit);
  return name === "1" ? "" : name;
}

/** Ctrl and wheel (and pinch) zooms, sideways wheel and shift-drag pan; a plain wheel scrolls the page. */
function wheelAndPan(u: uPlot): void {
  const shift = (by: number): void => {
    const { min, max } = u.scales["x"] ?? {};
    if (min != null && max != null) u.setScale("x", { min: min + by, max: max + by });
  };
  u.over.addEventListener("wheel", (e) => {
    const { min, max } = u.scales["x"] ?? {};
    if (min == null || max == null) return;
    if (e.ctrlKey || e.metaKey) {
      e.preventDefault();
      zoom(u, Math.exp(e.deltaY * 0.01), u.posToVal(e.offsetX, "x"));
    } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault();
      shift(((e.deltaX || e.deltaY) / u.over.clientWidth) * (max - min));
    }
  }, { passive: false });
  u.over.addEventListener("mousedown", (down) => {
    if (!down.shiftKey) return;
    down.stopImmediatePropagation();
    down.preventDefault();
    let last = down.clientX;
    const move = (e: MouseEvent): void => {
      shift(u.posToVal(0, "x") - u.posToVal(e.clientX - last, "x"));
      last = e.clientX;
    };
    const up = (): void => {
      removeEventListener("mousemove", move);
      removeEventListener("mouseup", up);
    };
    addEventListener("mousemove", move);
    addEventListener("mouseup", up);
  }, { capture: true });
}

export function zoom(u: uPlot, factor: number, around?: number): void {
  const { min, max } = u.scales["x"] ?? {};
  if (min == null || max == null) return;
  const centre = around ?? (min + max) / 2;
  u.setScale("x", { min: centre - (centre - min) * factor, max: centre + (max - centre) * factor });
}

/** The point nearest to the cursor, at most ``reach`` pixels away. */
export function nearest(u: uPlot, lines: Line[], hidden: number[], reach = 40): Near | null {
  const { left = -1, top = -1 } = u.cursor;
  if (left < 0 || top < 0) return null;
  let best: Near | null = null, distance = reach * reach;
  for (const line of lines) {
    if (hidden.includes(line.series.series.id)) continue;
    const x = u.posToVal(left, "x");
    let low = 0, high = line.x.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((line.x[middle] ?? 0) < x) low = middle + 1;
      else high = middle;
    }
    for (let i = Math.max(0, low - 25); i < Math.min(line.x.length, low + 25); i++) {
      const y = line.y[i];
      if (y == null) continue;
      const px = u.valToPos(line.x[i] ?? 0, "x"), py = u.valToPos(y, "y");
      const d = (px - left) ** 2 + ((py - top) * 0.6) ** 2;
      if (d < distance) [best, distance] = [{ line, index: i, left: px, top: py }, d];
    }
  }
  return best;
}
