/** From the model to columns that a plot can draw: x of each point by mode, values absolute or relative. */

import { short, type Graph, type GraphSeries } from "./model";
import type { State, XMode } from "./state";

/** So many commits without a point, and so many times the usual step, are a gap. */
const GAP_COMMITS = 5;
const GAP_STEPS = 4;

export interface Line {
  series: GraphSeries;
  /** Place in the address: decides the colour. */
  place: number;
  x: number[];
  y: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
  /** What absolute values are divided by; 1 when they stand as they are. */
  base: number;
  /** Indices of the points after which commits were left out. */
  gaps: number[];
}

export interface Layout {
  lines: Line[];
  relative: boolean;
  unit: string;
  /** x of a commit, for marks that stand on no point. */
  xOf: (revision: number) => number | null;
}

export function layout(graph: Graph, state: State): Layout {
  const units = new Set(graph.series.map((s) => s.series.unit));
  const relative = state.relative || (units.size > 1 && !state.multiples);
  const order = state.x === "environment" ? environmentOrder(graph) : null;
  const lines = graph.series.map((series) => line(graph, state, series, relative, order));
  const byRevision = (revision: number): number | null => {
    if (order === null) return xOf(graph, revision, state.x);
    for (const l of lines) {
      const i = l.series.points.revision.indexOf(revision);
      if (i >= 0) return l.x[i] ?? null;
    }
    return null;
  };
  return { lines, relative, unit: relative ? "" : (graph.series[0]?.series.unit ?? ""), xOf: byRevision };
}

function xOf(graph: Graph, revision: number, mode: XMode): number {
  return (mode === "date" ? graph.revisions.at[revision] : graph.revisions.position[revision]) ?? 0;
}

/** In this mode x counts the pairs (environment, commit), environment by environment in order of appearance. */
function environmentOrder(graph: Graph): Map<string, number> {
  const pairs = new Map<string, [number, number]>();
  for (const { points } of graph.series) {
    points.revision.forEach((r, i) => pairs.set(`${points.environment[i]}/${r}`, [points.environment[i] ?? 0, r]));
  }
  const sorted = [...pairs].sort(([, a], [, b]) => a[0] - b[0] || a[1] - b[1]);
  return new Map(sorted.map(([key], i) => [key, i]));
}

function line(graph: Graph, state: State, series: GraphSeries, relative: boolean, order: Map<string, number> | null): Line {
  const p = series.points;
  const base = relative ? reference(graph, state, series) : 1;
  const x: number[] = [];
  let last = -Infinity;
  p.revision.forEach((revision, i) => {
    let at = order ? (order.get(`${p.environment[i]}/${revision}`) ?? 0) : xOf(graph, revision, state.x);
    // Two environments of one commit, or two commits of one second, stand beside one another.
    if (at <= last) at = last + (state.x === "date" ? 1 : 0.25);
    last = at;
    x.push(at);
  });
  const scaled = (column: (number | null)[]): (number | null)[] => column.map((v) => (v === null ? null : v / base));
  const values = scaled(p.value).map((v) => (state.log && v !== null && v <= 0 ? null : v));
  return {
    series, base, x, y: values, low: scaled(p.low), high: scaled(p.high), place: place(state, series.series.id),
    gaps: order ? [] : gaps(p.revision.map((r) => graph.revisions.position[r] ?? 0)),
  };
}

/** Points after which far more commits go by than usual: there the line is broken. Positions ascend. */
export function gaps(positions: number[]): number[] {
  const steps = positions.slice(1).map((at, i) => at - (positions[i] ?? 0));
  const usual = [...steps].sort((a, b) => a - b)[steps.length >> 1] ?? 1;
  const most = Math.max(GAP_COMMITS, GAP_STEPS * usual);
  return steps.flatMap((step, i) => (step > most ? [i] : []));
}

export function place(state: State, id: number): number {
  return Math.max(0, state.series.indexOf(id));
}

function reference(graph: Graph, state: State, series: GraphSeries): number {
  const p = series.points;
  if (state.ref) {
    const i = p.revision.findIndex((r) => graph.revisions.sha[r]?.startsWith(short(state.ref)));
    const value = p.value[i];
    if (value) return value;
  }
  return p.value.find((v): v is number => Boolean(v)) ?? 1;
}
