/** Parameters of the benchmark as buttons: a value that is pressed is on the graph, for every combination with the others. */

import { button, h } from "./dom";
import type { Graph, SeriesRef } from "./model";

const MOST_SERIES = 40;
const MOST_VALUES = 16;

type Axis = [name: string, values: string[]];

/** What a series can be told apart by: benchmark with metric, each parameter, hardware. */
function traits(series: SeriesRef): Map<string, string> {
  const found = new Map([["metric", `${series.suite} ${series.metric}`]]);
  for (const [name, value] of Object.entries(series.params)) found.set(name, String(value));
  return found.set("hardware", series.hardware);
}

function axes(all: SeriesRef[]): Axis[] {
  const found = new Map<string, Set<string>>();
  for (const series of all) {
    for (const [name, value] of traits(series)) found.set(name, (found.get(name) ?? new Set()).add(value));
  }
  const natural = (a: string, b: string): number => a.localeCompare(b, undefined, { numeric: true });
  return [...found].filter(([, values]) => values.size > 1).map(([name, values]) => [name, [...values].sort(natural)]);
}

/**
 * Ids after a value of an axis was pressed: with those shown, the series of that value that agree best with them in all
 * else (not every combination need have been measured). Null: none would be left.
 */
function chosen(shown: SeriesRef[], all: SeriesRef[], axis: string, value: string, on: boolean): number[] | null {
  if (on) {
    const left = shown.filter((series) => traits(series).get(axis) !== value);
    return left.length ? left.map((series) => series.id) : null;
  }
  const wanted = new Map<string, Set<string>>();
  for (const series of shown) {
    for (const [name, mine] of traits(series)) wanted.set(name, (wanted.get(name) ?? new Set()).add(mine));
  }
  const candidates = all.filter((series) => traits(series).get(axis) === value);
  const agreement = (series: SeriesRef): number => [...traits(series)].filter(([name, mine]) => wanted.get(name)?.has(mine)).length;
  const best = Math.max(...candidates.map(agreement));
  const fresh = candidates.filter((series) => agreement(series) === best && !shown.some((one) => one.id === series.id));
  return [...shown.map((series) => series.id), ...fresh.map((series) => series.id)].slice(0, MOST_SERIES);
}

/** The panel; empty when there is nothing to choose between. ``choose`` is told the ids that are to be shown. */
export function panel(graph: Graph, choose: (ids: number[]) => void): HTMLElement | null {
  const shown = graph.series.map((one) => one.series);
  const all = [...new Map([...shown, ...graph.siblings].map((series) => [series.id, series])).values()];
  const rows = axes(all).map(([name, values]) => {
    const here = new Set(shown.map((series) => traits(series).get(name)));
    const buttons = values.slice(0, MOST_VALUES).map((value) => {
      const on = here.has(value);
      const made = button(value, on ? `Take ${value} off the graph` : `Add ${value}`, () => {
        const ids = chosen(shown, all, name, value, on);
        if (ids) choose(ids);
      }, on);
      made.disabled = on && here.size === 1;
      return made;
    });
    return h("div", { class: "facet", role: "group", "aria-label": name }, h("span", { class: "faint" }, name), ...buttons,
      values.length > MOST_VALUES && h("span", { class: "faint" }, `and ${values.length - MOST_VALUES} more, in the list below`));
  });
  return rows.length ? h("div", { class: "facets-panel" }, ...rows) : null;
}

/** The series that tells the same in clock cycles (or, of one in cycles, in time); null when there is none. */
export function counterpart(series: SeriesRef, siblings: SeriesRef[]): SeriesRef | null {
  const cycles = (one: SeriesRef): boolean => /cycles$/.test(one.metric);
  const time = (one: SeriesRef): boolean => one.kind === "time";
  const fits = cycles(series) ? time : time(series) ? cycles : null;
  const key = (one: SeriesRef): string => JSON.stringify([one.suite, one.benchmark, one.version, one.hardware, one.params]);
  return (fits && siblings.find((other) => fits(other) && key(other) === key(series))) || null;
}
