/** The data block of a graph's page (pages/packed.py says how it is packed) as the model that the API sends. */

import type { Graph, GraphSeries, Points, Revisions } from "./model";

type Column<T> = T[] | { all: T; n: number } | { steps: number[] };

interface PackedPoints extends Record<"revision" | "environment" | "count" | "run", Column<number>> {
  value: (number | null)[]; below: (number | null)[]; above: (number | null)[] | null; state: Column<string>;
}
interface PackedRevisions { sha: string[]; position: Column<number>; at: Column<number>; author: Column<string>; title: string[] }
interface Packed extends Omit<Graph, "series" | "revisions"> {
  revisions: PackedRevisions; series: (Omit<GraphSeries, "points"> & { points: PackedPoints })[];
}

export function unpacked(text: string): Graph {
  const packed = JSON.parse(text) as Packed;
  return { ...packed, revisions: revisions(packed.revisions), series: packed.series.map((series) => ({ ...series, points: points(series.points) })) };
}

function revisions(r: PackedRevisions): Revisions {
  return { sha: r.sha, position: column(r.position), at: column(r.at), author: column(r.author), title: r.title };
}

function points({ value, below, above, ...rest }: PackedPoints): Points {
  const away = (by: (number | null)[], sign: number): (number | null)[] => value.map((at, i) => {
    const distance = by[i];
    return at === null || distance == null ? null : at + sign * distance;
  });
  return {
    revision: column(rest.revision), environment: column(rest.environment), count: column(rest.count), run: column(rest.run),
    state: column(rest.state), value, low: away(below, -1), high: away(above ?? below, 1),
  };
}

function column<T extends string | number>(packed: Column<T>): T[] {
  if (Array.isArray(packed)) return packed;
  if ("all" in packed) return Array<T>(packed.n).fill(packed.all);
  let sum = 0;
  return packed.steps.map((step) => (sum += step)) as T[];
}
