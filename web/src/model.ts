/** The part of wire/views that the scripts read. */

export interface SeriesRef {
  id: number; suite: string; benchmark: string; version: string; metric: string; unit: string; direction: number;
  kind: string; params: Record<string, unknown>; hardware: string; noise: number | null;
}
export interface Effect { ratio: number | null; low: number | null; high: number | null; difference: number | null }
export interface RevisionRef { id: number; sha: string; position: number | null; title: string; author: string; at: string }
export interface EnvironmentRef { id: number; label: string; fingerprint: string }
export interface Change {
  id: number; state: string; kind: string; cause: string; effect: Effect; before: RevisionRef; after: RevisionRef; regression: number | null;
}
export interface Points {
  revision: number[]; environment: number[]; value: (number | null)[]; low: (number | null)[]; high: (number | null)[];
  count: number[]; run: number[]; state: string[];
}
export interface GraphSeries {
  series: SeriesRef; points: Points; total: number; segments: { first: number; last: number; level: number }[];
  changes: Change[]; failures: { revision: number; outcome: string; run: number }[];
}
export interface Revisions { sha: string[]; position: number[]; at: number[]; author: string[]; title: string[] }
export interface EventMark { id: number; kind: string; title: string; body: string; revision: number | null; at: string }
export interface Graph {
  project: { slug: string; name: string }; series: GraphSeries[]; revisions: Revisions; environments: EnvironmentRef[];
  events: EventMark[]; siblings: SeriesRef[];
  /** Commits that the address marked when it was opened. */
  pins?: RevisionRef[];
}
export interface Hit { kind: string; title: string; detail: string; url: string }

/** So many characters of a commit's hash are sent with a page, kept in its address, and compared. */
export function short(sha: string): string {
  return sha.slice(0, 12);
}

/** Fetches JSON of this service; an error says what the service said. */
export async function load<T>(url: string): Promise<T> {
  const reply = await fetch(url, { headers: { accept: "application/json" }, credentials: "same-origin" });
  if (!reply.ok) {
    const problem = (await reply.json().catch(() => ({}))) as { title?: string };
    throw new Error(problem.title ?? `${reply.status} ${reply.statusText}`);
  }
  return (await reply.json()) as T;
}
