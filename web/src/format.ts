/** How figures are written; the server writes them the same way (pages/formats.py). */

const THIN = "\u202f";
const MINUS = "\u2212";
const TIME: [number, string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const BINARY: [number, string][] = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const DECIMAL: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const PREFIXED = new Set(["B/s", "FLOP/s", "FLOPS", "flop/s", "Hz", "W", "J"]);

export function digits(value: number, figures = 4): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-6) return value.toExponential(figures - 1).replace("-", MINUS);
  const places = Math.max(0, figures - 1 - Math.floor(Math.log10(size)));
  const [whole = "", part] = size.toFixed(places).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, THIN);
  return (value < 0 ? MINUS : "") + (part ? `${grouped}.${part}` : grouped);
}

export function scaleOf(value: number, unit: string): [number, string] {
  const size = Math.abs(value);
  if (unit === "s" && size > 0) return TIME.find(([f]) => size >= f) ?? [1e-9, "ns"];
  if ((unit === "B" || unit === "bytes") && size > 0) return BINARY.find(([f]) => size >= f) ?? [1, "B"];
  if (PREFIXED.has(unit) || (unit && size >= 1e6)) {
    const found = DECIMAL.find(([f]) => size >= f);
    return found ? [found[0], found[1] + unit] : [1, unit];
  }
  return [1, unit];
}

export function quantity(value: number | null | undefined, unit = ""): string {
  if (value == null || !Number.isFinite(value)) return "–";
  const [factor, name] = scaleOf(value, unit);
  const number = digits(value / factor);
  return name && name !== "1" ? `${number}${THIN}${name}` : number;
}

export function percent(ratio: number | null | undefined, figures = 1): string {
  if (ratio == null || !Number.isFinite(ratio)) return "–";
  if (ratio >= 3) return `×${digits(ratio, 3)}`;
  const change = (ratio - 1) * 100;
  const text = Math.abs(change).toFixed(Math.abs(change) < 99.95 ? figures : 0);
  const sign = Number(text) === 0 ? "" : change > 0 ? "+" : MINUS;
  return `${sign}${text}${THIN}%`;
}

export function interval(low: number | null, high: number | null): string {
  return low == null || high == null ? "" : `${percent(low)} … ${percent(high)}`;
}

export function verdictClass(ratio: number | null, direction: number): "worse" | "better" | "moved" {
  if (ratio == null || direction === 0 || ratio === 1) return "moved";
  return ratio > 1 === direction > 0 ? "better" : "worse";
}

export function params(values: Record<string, unknown>): string {
  return Object.entries(values).map(([name, value]) => `${name}=${String(value)}`).join(", ");
}

export function day(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 10);
}

export function minute(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
}

/** "4 minutes ago" for what is nearer than a month, else the date as it stands. */
export function ago(then: Date, now: Date): string | null {
  const seconds = (now.getTime() - then.getTime()) / 1000;
  if (seconds < -60 || seconds > 30 * 86400) return null;
  if (seconds < 45) return "just now";
  const steps: [number, string][] = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [size, name] of steps) if (seconds >= size) return `${Math.floor(seconds / size)}${THIN}${name} ago`;
  return "1\u202fmin ago";
}
