/** What is drawn around the lines: bands, levels, changes, boundaries, events, failures, pins. On uPlot's canvas. */

import type uPlot from "uplot";
import { cssColour } from "./dom";
import type { Layout, Line } from "./layout";
import { short, type Graph } from "./model";
import { pinned } from "./pins";
import type { State } from "./state";

/** Of a line with more points than this only the line is drawn, and of all lines where they have twice as many. */
const DENSE = 1500;

export function dense(layout: Layout, line: Line): boolean {
  return line.x.length > DENSE || layout.lines.reduce((sum, { x }) => sum + x.length, 0) > 2 * DENSE;
}

export interface Cloud { x: number[]; y: number[]; used: boolean[] }

export function under(u: uPlot, graph: Graph, layout: Layout, state: State): void {
  const ctx = clip(u), drawn = new Set<string>();
  for (const line of shown(layout, state)) {
    if (state.band) band(u, ctx, line);
    for (const change of line.series.changes) {
      const before = at(graph, layout, change.before.sha), after = at(graph, layout, change.after.sha);
      const key = `${before}/${after}/${change.kind}`;
      // One commit often moves many series: its range is tinted once.
      if (after === null || drawn.has(key)) continue;
      drawn.add(key);
      const right = u.valToPos(after, "x", true), left = before === null ? right : u.valToPos(before, "x", true);
      ctx.globalAlpha = 0.1;
      ctx.fillStyle = tone(change.kind);
      ctx.fillRect(Math.min(left, right), u.bbox.top, Math.max(Math.abs(right - left), 2), u.bbox.height);
    }
  }
  ctx.restore();
}

export function over(u: uPlot, graph: Graph, layout: Layout, state: State, clouds: Map<number, Cloud>): void {
  const ctx = clip(u);
  const ratio = devicePixelRatio || 1;
  boundaries(u, ctx, graph, layout, state);
  events(u, ctx, graph, layout);
  for (const line of shown(layout, state)) {
    ctx.fillStyle = ctx.strokeStyle = colour(line.place);
    gaps(u, ctx, line);
    const cloud = clouds.get(line.series.series.id);
    if (cloud) dots(u, ctx, cloud, line);
    ctx.lineWidth = 2.2 * ratio;
    ctx.globalAlpha = 1;
    for (const segment of line.series.segments) {
      const a = line.x[segment.first], b = line.x[segment.last];
      if (a === undefined || b === undefined) continue;
      const y = u.valToPos(segment.level / line.base, "y", true);
      stroke(ctx, u.valToPos(a, "x", true), y, u.valToPos(b, "x", true), y);
    }
    if (!dense(layout, line)) hollow(u, ctx, line);
    failures(u, ctx, layout, line);
  }
  ctx.restore();
  changes(u, graph, layout, state);
  pins(u, graph, layout, state);
}

export function colour(place: number): string {
  return cssColour(`--s${place % 8}`);
}

function tone(kind: string): string {
  return cssColour(kind === "regression" ? "--worse" : kind === "improvement" ? "--better" : "--moved");
}

function shown(layout: Layout, state: State): Line[] {
  return layout.lines.filter((line) => !state.hidden.includes(line.series.series.id));
}

const known = new WeakMap<string[], Map<string, number>>();

/** x of a commit. Asked for each change in each frame, so that a search would cost more than the drawing. */
function at(graph: Graph, layout: Layout, sha: string): number | null {
  const { sha: shas } = graph.revisions;
  let places = known.get(shas);
  if (!places) known.set(shas, (places = new Map(shas.map((one, i) => [short(one), i]))));
  const i = places.get(short(sha));
  return i === undefined ? null : layout.xOf(i);
}

/** First point in view and the one after the last, with a neighbour on either side. */
function inView(u: uPlot, x: number[]): [number, number] {
  const { min, max } = u.scales["x"] ?? {};
  if (min == null || max == null) return [0, x.length];
  return [Math.max(0, before(x, min) - 1), Math.min(x.length, before(x, max) + 1)];
}

/** How many of ascending numbers are smaller. */
function before(x: number[], at: number): number {
  let low = 0, high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((x[middle] ?? 0) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

function clip(u: uPlot): CanvasRenderingContext2D {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  return ctx;
}

function stroke(ctx: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number): void {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

function band(u: uPlot, ctx: CanvasRenderingContext2D, line: Line): void {
  const [first, after] = inView(u, line.x);
  ctx.globalAlpha = 0.14;
  ctx.fillStyle = colour(line.place);
  if (after - first > u.bbox.width / 4) columns(u, ctx, line, first, after);
  else outline(u, ctx, line, first, after);
}

function outline(u: uPlot, ctx: CanvasRenderingContext2D, line: Line, first: number, after: number): void {
  const path = new Path2D();
  for (let i = first; i < after; i++) {
    const y = line.high[i];
    if (y != null) path.lineTo(u.valToPos(line.x[i] ?? 0, "x", true), u.valToPos(y, "y", true));
  }
  for (let i = after - 1; i >= first; i--) {
    const y = line.low[i];
    if (y != null) path.lineTo(u.valToPos(line.x[i] ?? 0, "x", true), u.valToPos(y, "y", true));
  }
  path.closePath();
  ctx.fill(path);
}

/** A band of about as many points as there are columns of pixels, column by column: its outline would take five times as long. */
function columns(u: uPlot, ctx: CanvasRenderingContext2D, line: Line, first: number, after: number): void {
  const wide = Math.ceil(u.bbox.width), left = Math.round(u.bbox.left);
  const top = new Float64Array(wide).fill(Infinity), foot = new Float64Array(wide).fill(-Infinity);
  const cover = (column: number, high: number, low: number): void => {
    if (column < 0 || column >= wide) return;
    top[column] = Math.min(top[column] ?? high, high);
    foot[column] = Math.max(foot[column] ?? low, low);
  };
  let x = NaN, high = 0, low = 0;
  for (let i = first; i < after; i++) {
    const upper = line.high[i], lower = line.low[i];
    if (upper == null || lower == null) continue;
    const here = u.valToPos(line.x[i] ?? 0, "x", true) - left, h = u.valToPos(upper, "y", true), l = u.valToPos(lower, "y", true);
    for (let column = Math.max(0, Math.ceil(x)); column < Math.min(here, wide); column++) {
      const share = (column - x) / (here - x);
      cover(column, high + share * (h - high), low + share * (l - low));
    }
    cover(Math.floor(here), h, l);
    [x, high, low] = [here, h, l];
  }
  top.forEach((y, column) => y < Infinity && ctx.fillRect(left + column, y, 1, Math.max(1, (foot[column] ?? y) - y)));
}

function dots(u: uPlot, ctx: CanvasRenderingContext2D, cloud: Cloud, line: Line): void {
  const ratio = devicePixelRatio || 1;
  cloud.x.forEach((x, i) => {
    ctx.globalAlpha = cloud.used[i] ? 0.25 : 0.1;
    ctx.fillRect(u.valToPos(x, "x", true) - ratio, u.valToPos((cloud.y[i] ?? 0) / line.base, "y", true) - ratio, 2 * ratio, 2 * ratio);
  });
}

/** Where commits were left out, the ends are joined by dots. */
function gaps(u: uPlot, ctx: CanvasRenderingContext2D, line: Line): void {
  const ratio = devicePixelRatio || 1;
  ctx.lineWidth = ratio;
  ctx.globalAlpha = 0.8;
  ctx.setLineDash([ratio, 4 * ratio]);
  for (const i of line.gaps) {
    const a = line.y[i], b = line.y[i + 1];
    if (a == null || b == null) continue;
    stroke(ctx, u.valToPos(line.x[i] ?? 0, "x", true), u.valToPos(a, "y", true), u.valToPos(line.x[i + 1] ?? 0, "x", true), u.valToPos(b, "y", true));
  }
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

/** Points whose conditions were doubtful are hollow, while points are drawn at all. */
function hollow(u: uPlot, ctx: CanvasRenderingContext2D, line: Line): void {
  const ratio = devicePixelRatio || 1, paper = cssColour("--paper");
  line.series.points.state.forEach((state, i) => {
    const y = line.y[i];
    if (state === "valid" || y == null) return;
    ctx.beginPath();
    ctx.arc(u.valToPos(line.x[i] ?? 0, "x", true), u.valToPos(y, "y", true), 2.6 * ratio, 0, 7);
    ctx.fillStyle = paper;
    ctx.fill();
    ctx.strokeStyle = colour(line.place);
    ctx.lineWidth = 1.2 * ratio;
    ctx.stroke();
  });
}

function failures(u: uPlot, ctx: CanvasRenderingContext2D, layout: Layout, line: Line): void {
  const r = 3 * (devicePixelRatio || 1), y = u.bbox.top + u.bbox.height - 2 * r;
  ctx.strokeStyle = cssColour("--worse");
  ctx.lineWidth = 1.6 * (devicePixelRatio || 1);
  for (const failure of line.series.failures) {
    const value = layout.xOf(failure.revision);
    if (value === null) continue;
    const x = u.valToPos(value, "x", true);
    stroke(ctx, x - r, y - r, x + r, y + r);
    stroke(ctx, x + r, y - r, x - r, y + r);
  }
}

function label(u: uPlot, ctx: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  const ratio = devicePixelRatio || 1;
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.fillStyle = cssColour("--soft");
  const room = u.bbox.left + u.bbox.width - x - 8 * ratio;
  let shortened = text;
  while (shortened.length > 4 && ctx.measureText(shortened).width > room) shortened = `${shortened.slice(0, -4)}…`;
  if (room > 30 * ratio) ctx.fillText(shortened, x + 4 * ratio, y);
}

function boundaries(u: uPlot, ctx: CanvasRenderingContext2D, graph: Graph, layout: Layout, state: State): void {
  const ratio = devicePixelRatio || 1, seen = new Set<number>();
  ctx.strokeStyle = cssColour("--soft");
  ctx.lineWidth = ratio;
  ctx.globalAlpha = 1;
  let row = 0;
  for (const line of shown(layout, state)) {
    const { environment } = line.series.points;
    // Ordered by environment, the first one is named as the others are.
    if (state.x === "environment" && environment.length && !seen.size) label(u, ctx, graph.environments[environment[0] ?? 0]?.label ?? "", u.bbox.left, u.bbox.top + 12 * ratio);
    for (let i = 1; i < environment.length; i++) {
      if (environment[i] === environment[i - 1]) continue;
      const x = Math.round(u.valToPos(((line.x[i] ?? 0) + (line.x[i - 1] ?? 0)) / 2, "x", true));
      if (seen.has(x) || seen.size > 40) continue;
      seen.add(x);
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      stroke(ctx, x, u.bbox.top, x, u.bbox.top + u.bbox.height);
      ctx.setLineDash([]);
      label(u, ctx, graph.environments[environment[i] ?? 0]?.label ?? "", x, u.bbox.top + (12 + 14 * (row++ % 3)) * ratio);
    }
  }
}

function events(u: uPlot, ctx: CanvasRenderingContext2D, graph: Graph, layout: Layout): void {
  const ratio = devicePixelRatio || 1;
  ctx.strokeStyle = cssColour("--soft");
  ctx.lineWidth = ratio;
  for (const event of graph.events) {
    const value = event.kind === "annotation" && event.revision !== null ? layout.xOf(event.revision) : null;
    if (value === null) continue;
    const x = Math.round(u.valToPos(value, "x", true));
    ctx.setLineDash([ratio, 3 * ratio]);
    stroke(ctx, x, u.bbox.top, x, u.bbox.top + u.bbox.height);
    ctx.setLineDash([]);
    label(u, ctx, event.title, x, u.bbox.top + u.bbox.height - 14 * ratio);
  }
}

function changes(u: uPlot, graph: Graph, layout: Layout, state: State): void {
  const { ctx } = u, ratio = devicePixelRatio || 1;
  for (const line of shown(layout, state)) {
    for (const change of line.series.changes) {
      const value = at(graph, layout, change.after.sha);
      if (value === null) continue;
      const x = u.valToPos(value, "x", true), y = u.bbox.top;
      if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
      ctx.save();
      ctx.globalAlpha = change.state === "provisional" ? 0.55 : 1;
      ctx.fillStyle = tone(change.kind);
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(x + 5 * ratio, y - 9 * ratio);
      ctx.lineTo(x - 5 * ratio, y - 9 * ratio);
      ctx.fill();
      ctx.restore();
    }
  }
}

function pins(u: uPlot, graph: Graph, layout: Layout, state: State): void {
  const { ctx } = u, ratio = devicePixelRatio || 1;
  for (const pin of pinned(graph, layout, state)) {
    if (pin.x === null) continue;
    const x = Math.round(u.valToPos(pin.x, "x", true)), end = u.bbox.left + u.bbox.width;
    if (x < u.bbox.left || x > end) continue;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = cssColour("--accent");
    ctx.lineWidth = 1.5 * ratio;
    if (pin.remark) ctx.setLineDash([6 * ratio, 4 * ratio]);
    stroke(ctx, x, u.bbox.top, x, u.bbox.top + u.bbox.height);
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "alphabetic";
    const text = pin.letter + pin.remark, left = x + 8 * ratio + ctx.measureText(text).width > end;
    ctx.textAlign = left ? "right" : "left";
    ctx.fillText(text, x + (left ? -4 : 4) * ratio, u.bbox.top + u.bbox.height - 4 * ratio);
    ctx.restore();
  }
}
