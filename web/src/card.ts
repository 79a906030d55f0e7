/** The card beside a point: what, who, how much, where. Its facts about the run are fetched when one rests on it. */

import { h } from "./dom";
import { interval, minute, params, percent, quantity, verdictClass } from "./format";
import { load, short, type Graph } from "./model";
import type { Near } from "./plot";

interface RunFacts { conditions: Record<string, unknown>; device: string; run: { node: string; outcome: string } }

export interface Actions { pin: (sha: string) => void; relativeTo: (sha: string) => void; close: () => void }

const facts = new Map<number, Promise<RunFacts>>();

export class Card {
  readonly element = h("div", { class: "hover-card", hidden: true, role: "status" });
  pinned = false;
  private shown = "";
  private timer = 0;

  constructor(private graph: Graph, private actions: Actions) {}

  hide(): void {
    if (this.pinned) return;
    this.element.hidden = true;
    this.shown = "";
  }

  close(): void {
    this.pinned = false;
    this.element.classList.remove("pinned");
    this.hide();
  }

  show(near: Near, plot: HTMLElement, over: HTMLElement, pin = false): void {
    if (this.pinned && !pin) return;
    const key = `${near.line.series.series.id}/${near.index}/${pin}`;
    if (key !== this.shown) {
      this.shown = key;
      this.fill(near, pin);
    }
    this.pinned = pin;
    this.element.classList.toggle("pinned", pin);
    this.element.hidden = false;
    const box = plot.getBoundingClientRect(), inner = over.getBoundingClientRect();
    const x = inner.left - box.left + near.left, y = inner.top - box.top + near.top;
    const wide = this.element.offsetWidth, high = this.element.offsetHeight;
    const left = x + 14 + wide > box.width ? Math.max(0, x - wide - 14) : x + 14;
    this.element.style.left = `${left}px`;
    this.element.style.top = `${Math.max(0, Math.min(y - 20, Math.max(0, box.height - high)))}px`;
  }

  private fill(near: Near, pin: boolean): void {
    const { graph } = this, { series, index, line } = { series: near.line.series, index: near.index, line: near.line };
    const p = series.points, r = p.revision[index] ?? 0, run = p.run[index] ?? 0;
    const sha = graph.revisions.sha[r] ?? "", base = `/projects/${graph.project.slug}`;
    const low = p.low[index], high = p.high[index], value = p.value[index];
    const spread = low != null && high != null && high > low ? ` (${quantity(low, series.series.unit)} to ${quantity(high, series.series.unit)})` : "";
    const change = series.changes.find((c) => short(c.after.sha) === short(sha));
    const rest = h("p", { class: "faint" });
    this.element.className = `hover-card s${line.place % 8}`;
    this.element.replaceChildren(
      h("p", { class: "row" }, h("b", {}, quantity(value, series.series.unit)), h("span", { class: "faint" }, `${series.series.metric}${spread}`)),
      line.base !== 1 && value != null ? h("p", {}, percent(value / line.base)) : "",
      h("p", {}, h("a", { class: "commit", href: `${base}/commits/${sha}` }, h("code", {}, sha.slice(0, 10)), " ", graph.revisions.title[r] ?? "")),
      h("p", { class: "faint" }, `${graph.revisions.author[r]}, ${minute(graph.revisions.at[r] ?? 0)}`),
      h("p", { class: "faint" }, [params(series.series.params), series.series.hardware].filter(Boolean).join(" · ")),
      h("p", { class: "faint" }, graph.environments[p.environment[index] ?? 0]?.label ?? ""),
      h("p", { class: "faint" }, `${p.count[index]} ${p.count[index] === 1 ? "process" : "processes"}${p.state[index] === "valid" ? "" : `, ${p.state[index]}`}`),
      change ? h("p", {}, h("b", { class: `effect ${verdictClass(change.effect.ratio, series.series.direction)}` }, percent(change.effect.ratio)), ` ${interval(change.effect.low, change.effect.high)} from here on, ${change.state}`) : "",
      rest,
      pin ? this.links(sha, run, base, change?.regression ?? null) : "",
    );
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.more(run, rest), pin ? 0 : 220);
  }

  private links(sha: string, run: number, base: string, regression: number | null): HTMLElement {
    const act = (label: string, action: () => void): HTMLElement => {
      const made = h("button", { type: "button" }, label);
      made.addEventListener("click", action);
      return made;
    };
    return h(
      "p", {},
      h("a", { href: `/runs/${run}` }, `run ${run}`), " ",
      regression !== null && h("a", { href: `${base}/regressions/${regression}` }, `#${regression}`), " ",
      act("pin", () => this.actions.pin(sha)), " ", act("relative to this", () => this.actions.relativeTo(sha)), " ",
      act("close", () => this.actions.close()),
    );
  }

  private async more(run: number, into: HTMLElement): Promise<void> {
    if (document.body.dataset["static"]) return;
    const wanted = facts.get(run) ?? load<RunFacts>(`/api/v1/runs/${run}`);
    facts.set(run, wanted);
    try {
      const { conditions, run: row } = await wanted;
      into.textContent = [row.node, ...telling(conditions)].join(" · ");
    } catch {
      facts.delete(run);
    }
  }
}

/** What one looks at first, most telling first. */
const FIRST = [/clock|sm$/, /throttl|clock events/, /temperature/, /power/, /cpu$/, /load/];
const MOST = 4;
const UNITS: Record<string, string> = { mhz: " MHz", w: " W", c: " °C" };

/** The conditions that tell most, in words: reports nest, and summarise readings as their median. */
function telling(conditions: Record<string, unknown>): string[] {
  const rank = (name: string): number => (FIRST.findIndex((wanted) => wanted.test(name)) + FIRST.length + 1) % (FIRST.length + 1);
  return leaves(conditions).sort(([a], [b]) => rank(a) - rank(b)).slice(0, MOST).map(([name, value]) => `${name} ${value}`);
}

function leaves(from: Record<string, unknown>, before = ""): [string, string][] {
  return Object.entries(from).flatMap(([key, value]): [string, string][] => {
    const name = `${before} ${key}`.trim().replaceAll("_", " ");
    const inner = typeof value === "object" && value !== null && "median" in value ? value.median : value;
    if (typeof inner === "number") {
      const [, plain = name, unit = ""] = /^(.*) (mhz|w|c)$/.exec(name) ?? [];
      return [[plain, `${Math.round(inner * 100) / 100}${UNITS[unit] ?? ""}`]];
    }
    if (typeof inner === "string" || typeof inner === "boolean") return [[name, String(inner)]];
    const nested = typeof inner === "object" && inner !== null && !Array.isArray(inner) && !("unavailable" in inner);
    return nested ? leaves(inner as Record<string, unknown>, name) : [];
  });
}
