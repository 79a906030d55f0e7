/** The state of a graph, which is its address: what is not the default stands in the query, and nothing else. */

export type XMode = "commit" | "date" | "environment";

export interface State {
  /** Ids by place; null keeps a place (and so its colour) free. */
  series: (number | null)[];
  x: XMode;
  log: boolean;
  relative: boolean;
  /** The commit that relative values are relative to; empty: the first point of each series. */
  ref: string;
  band: boolean;
  samples: boolean;
  multiples: boolean;
  hidden: number[];
  from: number | null;
  to: number | null;
  /** The part of the values that is shown, as drawn (relative when they are); null: all. */
  low: number | null;
  high: number | null;
  pins: string[];
}

const number = (text: string | null): number | null => (text && /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text) ? Number(text) : null);

export function read(search: string, fallback: number[]): State {
  const q = new URLSearchParams(search);
  const ids = (q.get("series") ?? "").split(",").map((part) => number(part));
  const x = q.get("x");
  return {
    series: ids.some((id) => id !== null) ? ids : fallback,
    x: x === "date" || x === "environment" ? x : "commit",
    log: q.get("y") === "log",
    relative: q.get("mode") === "relative",
    ref: q.get("ref") ?? "",
    band: q.get("band") !== "0",
    samples: q.get("samples") === "1",
    multiples: q.get("small") === "1",
    hidden: (q.get("hide") ?? "").split(",").flatMap((part) => number(part) ?? []),
    from: number(q.get("from")),
    to: number(q.get("to")),
    low: number(q.get("low")),
    high: number(q.get("high")),
    pins: (q.get("pins") ?? "").split(",").filter(Boolean).slice(0, 2),
  };
}

/** The query of a state; ``single`` leaves the series out, where the path names it. */
export function write(state: State, single: boolean): string {
  const parts: string[] = [];
  const put = (name: string, value: string | number | null | false): void => {
    if (value !== null && value !== false && value !== "") parts.push(`${name}=${encodeURIComponent(value).replace(/%2C/g, ",")}`);
  };
  if (!single) put("series", state.series.map((id) => id ?? "").join(","));
  put("x", state.x !== "commit" && state.x);
  put("y", state.log && "log");
  put("mode", state.relative && "relative");
  put("ref", state.ref);
  put("band", !state.band && "0");
  put("samples", state.samples && "1");
  put("small", state.multiples && "1");
  put("hide", state.hidden.join(","));
  put("from", state.from);
  put("to", state.to);
  put("low", state.low);
  put("high", state.high);
  put("pins", state.pins.join(","));
  return parts.length ? `?${parts.join("&")}` : "";
}
