/** The pinned commits: where they stand, also where none of the series has a point of theirs. */

import type { Layout } from "./layout";
import { short, type Graph } from "./model";
import type { State } from "./state";

export interface Pin {
  letter: string;
  sha: string;
  /** null: it lies outside what is shown, or nobody knows it. */
  x: number | null;
  /** What stands beside its letter: empty where a series that is shown has a point. */
  remark: string;
}

interface Place { position: number | null; at: number }

/** Places of commits that were pinned, for graphs of other series. */
const places = new Map<string, Place>();

export function pinned(graph: Graph, layout: Layout, state: State): Pin[] {
  for (const { sha, position, at } of graph.pins ?? []) places.set(short(sha), { position, at: Date.parse(at) / 1000 });
  const { sha: shas, position, at } = graph.revisions;
  return state.pins.map((sha, i) => {
    const letter = i === 0 ? "A" : "B", found = shas.findIndex((full) => full.startsWith(short(sha)));
    if (found >= 0) places.set(short(sha), { position: position[found] ?? null, at: at[found] ?? 0 });
    const lines = layout.lines.filter((line) => !state.hidden.includes(line.series.series.id));
    const measured = found >= 0 && lines.some((line) => line.series.points.revision.includes(found));
    const place = places.get(short(sha));
    if (measured) return { letter, sha, x: layout.xOf(found), remark: "" };
    if (!place) return { letter, sha, x: null, remark: ", not known here" };
    if (outside(state, place)) return { letter, sha, x: null, remark: "" };
    return { letter, sha, x: nearest(graph, layout, state, place), remark: ", no point here" };
  });
}

/** Whether another stretch of commits was chosen: what is there is not known, so that nothing is said of it. */
function outside(state: State, { position }: Place): boolean {
  return state.x === "commit" && position !== null && ((state.from ?? -Infinity) > position || (state.to ?? Infinity) < position);
}

/** The place in the order of what is drawn; at its ends for commits before the first and after the last. */
function nearest(graph: Graph, layout: Layout, state: State, place: Place): number | null {
  const { position, at } = graph.revisions;
  // A commit off the branch lies where its date does.
  const own = (revision: number): number => (place.position === null || state.x === "date" ? at : position)[revision] ?? 0;
  const wanted = place.position === null || state.x === "date" ? place.at : place.position;
  let best: number | null = null, distance = Infinity, low = Infinity, high = -Infinity;
  for (const { x, series: { points } } of layout.lines) {
    points.revision.forEach((revision, i) => {
      const here = x[i] ?? 0, away = Math.abs(own(revision) - wanted);
      [low, high] = [Math.min(low, here), Math.max(high, here)];
      if (away < distance) [best, distance] = [here, away];
    });
  }
  if (best === null || state.x === "environment" || (state.x === "commit" && place.position === null)) return best;
  return Math.min(high, Math.max(low, wanted));
}
