/** The graph page: state in the address, one plot or small multiples, legend, toolbar, keyboard, downloads. */

import type uPlot from "uplot";
import { Card } from "./card";
import { button, h, one } from "./dom";
import { counterpart, panel } from "./facets";
import { params } from "./format";
import { copier, png } from "./keep";
import { help, listen } from "./keys";
import { layout, place, type Layout, type Line } from "./layout";
import { over, under, type Cloud } from "./marks";
import { load, short, type Graph, type SeriesRef } from "./model";
import { unpacked } from "./packed";
import { pinned } from "./pins";
import { joined, make, nearest, zoom, type Near } from "./plot";
import { read, write, type State, type XMode } from "./state";

const X_MODES: [XMode, string][] = [["commit", "Commits"], ["date", "Dates"], ["environment", "Environments"]];

class GraphPage {
  private state: State;
  private layout!: Layout;
  private plots: uPlot[] = [];
  private card: Card;
  private clouds = new Map<number, Cloud>();
  private cursor: Near | null = null;
  private single: boolean;
  private saving = 0;
  private drawn = false;
  /** A static site has nobody to ask. */
  private fixed = Boolean(document.body.dataset["static"]);

  constructor(private graph: Graph, private root: HTMLElement, private plot: HTMLElement, private legend: HTMLElement, private toolbar: HTMLElement) {
    this.single = location.pathname.includes("/series/");
    this.state = read(location.search, graph.series.map((s) => s.series.id));
    this.card = this.newCard();
    toolbar.hidden = false;
    this.draw();
    this.keyboard();
    new ResizeObserver(() => this.resize()).observe(plot);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    document.addEventListener("groundspeed:theme", () => this.draw());
    for (const link of document.querySelectorAll<HTMLAnchorElement>("a[data-add]")) {
      link.addEventListener("click", (e) => {
        e.preventDefault();
        void this.add(Number(link.dataset["add"]));
        link.closest("li")?.remove();
      });
    }
    if (this.state.samples) void this.fetchSamples();
  }

  private newCard(): Card {
    return new Card(this.graph, {
      pin: (sha) => this.pin(sha),
      relativeTo: (sha) => this.set({ relative: true, ref: sha.slice(0, 10) }),
      close: () => this.card.close(),
    });
  }

  private set(change: Partial<State>): void {
    this.state = { ...this.state, ...change };
    this.save();
    this.draw();
  }

  private save(): void {
    const path = this.single ? location.pathname : `/projects/${this.graph.project.slug}/graph`;
    if (this.fixed && !this.single) return;
    history.replaceState(null, "", path + write(this.state, this.single));
  }

  private draw(): void {
    for (const plot of this.plots) plot.destroy();
    this.layout = layout(this.graph, this.state);
    this.plot.replaceChildren(this.card.element);
    this.plot.classList.add("live");
    this.drawn = false;
    const apart = this.state.multiples && this.layout.lines.length > 1;
    this.plot.classList.toggle("multiples", apart);
    const groups = apart ? this.layout.lines.map((line) => [line]) : [this.layout.lines];
    this.plots = groups.map((lines) => this.one(lines, apart ? 190 : 380));
    this.drawn = true;
    this.drawLegend();
    this.drawToolbar();
    this.drawFacets();
    this.root.dataset["ready"] = "1";
  }

  private one(lines: Line[], height: number): uPlot {
    const part: Layout = { ...this.layout, lines, unit: lines[0] && !this.layout.relative ? lines[0].series.series.unit : this.layout.unit };
    const host = h("div", { class: "host" });
    const title = this.plot.classList.contains("multiples") && lines[0] ? h("p", { class: `plot-title s${lines[0].place % 8}` }, name(lines[0].series.series)) : null;
    this.plot.append(title ? h("div", { class: "apart" }, title, host) : host);
    const made = make(this.graph, part, this.state, host, height, {
      under: (u) => under(u, this.graph, part, this.state),
      over: (u) => over(u, this.graph, part, this.state, this.clouds),
      moved: (u) => this.hover(u, lines),
      ranged: (u) => this.ranged(u),
      boxed: (low, high) => this.boxed(low, high),
    }, this.state.multiples ? "graph" : undefined);
    made.over.addEventListener("click", () => {
      const near = nearest(made, lines, this.state.hidden);
      if (near) this.show(near, made, true);
      else this.card.close();
    });
    made.over.addEventListener("mouseleave", () => this.card.hide());
    made.over.addEventListener("dblclick", () => this.whole());
    return made;
  }

  private hover(u: uPlot, lines: Line[]): void {
    if (u.cursor.event == null) return;
    const near = nearest(u, lines, this.state.hidden);
    if (near) this.show(near, u, false);
    else this.card.hide();
  }

  private show(near: Near, u: uPlot, pin: boolean): void {
    this.cursor = near;
    this.card.show(near, this.plot, u.over, pin);
  }

  /** A box that chooses values is part of the address too; six figures are enough for a picture. */
  private boxed(low: number | null, high: number | null): void {
    const short = (value: number | null): number | null => (value === null ? null : Number(value.toPrecision(6)));
    [this.state.low, this.state.high] = this.state.multiples ? [null, null] : [short(low), short(high)];
    this.saveSoon();
  }

  private saveSoon(): void {
    clearTimeout(this.saving);
    this.saving = window.setTimeout(() => {
      this.save();
      void this.refine();
    }, 250);
  }

  private ranged(u: uPlot): void {
    if (!this.drawn) return;
    const { min, max } = u.scales["x"] ?? {};
    const all = u.data[0];
    const whole = min === all[0] && max === all.at(-1);
    this.state.from = whole || min == null ? null : Math.floor(min);
    this.state.to = whole || max == null ? null : Math.ceil(max);
    this.saveSoon();
  }

  /** More points of a part, where the whole was thinned. */
  private async refine(): Promise<void> {
    const { from, to, x } = this.state;
    if (this.fixed || from === null || to === null || x !== "commit" || !this.graph.series.some((s) => s.total > s.points.value.length)) return;
    const part = await load<Graph>(`${this.api("graph")}&from=${Math.max(0, from)}&to=${Math.max(0, to)}`);
    if (from !== this.state.from || to !== this.state.to) return;
    const fresh = layout(part, this.state);
    this.graph = part;
    this.card = this.newCard();
    this.layout = fresh;
    this.draw();
  }

  private async whole(): Promise<void> {
    this.state.from = this.state.to = this.state.low = this.state.high = null;
    this.save();
    if (!this.fixed && (this.graph.series.some((s) => s.total > s.points.value.length) || location.search.includes("from="))) await this.reload();
    this.draw();
  }

  private api(kind: string): string {
    const hidden = kind === "graph" ? [] : this.state.hidden;
    const ids = this.state.series.filter((id): id is number => id !== null && !hidden.includes(id)).join(",");
    return `/api/v1/projects/${this.graph.project.slug}/${kind}?series=${ids}`;
  }

  private async reload(): Promise<void> {
    this.graph = await load<Graph>(this.api("graph"));
    this.card = this.newCard();
  }

  private async add(id: number): Promise<void> {
    if (this.state.series.includes(id)) return;
    const free = this.state.series.indexOf(null);
    const series = [...this.state.series];
    if (free >= 0) series[free] = id;
    else series.push(id);
    this.single = false;
    this.state = { ...this.state, series };
    await this.reload();
    this.set({});
  }

  private remove(id: number): void {
    const series = this.state.series.map((other) => (other === id ? null : other));
    while (series.at(-1) === null) series.pop();
    this.graph = { ...this.graph, series: this.graph.series.filter((s) => s.series.id !== id) };
    this.card = this.newCard();
    this.single = false;
    this.set({ series, hidden: this.state.hidden.filter((other) => other !== id) });
  }

  /** Shows just these; those that are there keep their places, and so their colours. */
  private async choose(ids: number[]): Promise<void> {
    const series = this.state.series.map((id) => (id !== null && ids.includes(id) ? id : null));
    for (const id of ids.filter((one) => !series.includes(one))) {
      const free = series.indexOf(null);
      if (free >= 0) series[free] = id;
      else series.push(id);
    }
    while (series.at(-1) === null) series.pop();
    this.single = false;
    this.state = { ...this.state, series, hidden: this.state.hidden.filter((id) => ids.includes(id)) };
    await this.reload();
    if (this.state.samples) void this.fetchSamples();
    this.set({});
  }

  /** The same series in clock cycles, or back in time: each takes the other's place. */
  private async swapClock(): Promise<void> {
    const swap = new Map(this.graph.series.map(({ series }) => [series.id, counterpart(series, this.graph.siblings)?.id ?? series.id]));
    this.state = { ...this.state, low: null, high: null, series: this.state.series.map((id) => (id === null ? null : (swap.get(id) ?? id))) };
    this.single = false;
    await this.reload();
    this.set({});
  }

  private pin(sha: string): void {
    const one = short(sha);
    const pins = this.state.pins.includes(one) ? this.state.pins.filter((p) => p !== one) : [...this.state.pins, one].slice(-2);
    this.card.close();
    this.set({ pins });
  }

  private drawFacets(): void {
    const made = this.fixed ? null : panel(this.graph, (ids) => void this.choose(ids));
    const old = one(".facets-panel", this.root);
    if (made && old) old.replaceWith(made);
    else if (made) this.legend.after(made);
    else old?.remove();
  }

  private drawLegend(): void {
    this.legend.replaceChildren(...this.layout.lines.map(({ series: { series } }) => {
      const off = this.state.hidden.includes(series.id);
      const toggle = button(off ? "show" : "hide", `${off ? "Show" : "Hide"} this series`, () =>
        this.set({ hidden: off ? this.state.hidden.filter((id) => id !== series.id) : [...this.state.hidden, series.id] }));
      toggle.className = "plain";
      const gone = button("×", "Take it off the graph", () => this.remove(series.id));
      gone.className = "plain";
      gone.setAttribute("aria-label", `Take ${name(series)} off the graph`);
      return h("li", { class: `s${place(this.state, series.id) % 8}${off ? " off" : ""}` },
        h("a", { href: `/projects/${this.graph.project.slug}/series/${series.id}` }, name(series)),
        this.layout.lines.length > 1 && toggle, this.layout.lines.length > 1 && gone);
    }));
  }

  private drawToolbar(): void {
    const { state } = this;
    const group = (label: string, ...buttons: HTMLElement[]): HTMLElement => h("fieldset", { "aria-label": label }, ...buttons);
    const [a, b] = pinned(this.graph, this.layout, state);
    const cycles = this.graph.series.some((s) => s.series.metric.endsWith("cycles"));
    const clocks = !this.fixed && this.graph.series.some((s) => counterpart(s.series, this.graph.siblings));
    const units = new Set(this.graph.series.map((s) => s.series.unit)).size;
    this.toolbar.replaceChildren(
      group("Across", ...X_MODES.map(([mode, label]) => button(label, `Order by ${label.toLowerCase()} (x)`, () => this.set({ x: mode, from: null, to: null }), state.x === mode))),
      group("Up", button("Log", "Logarithmic scale (l)", () => this.set({ log: !state.log, low: null, high: null }), state.log),
        button("Relative", units > 1 ? "Units differ, so values are relative" : "Relative to the first point or to a chosen commit (r)", () => this.set({ relative: !state.relative, ref: state.relative ? "" : state.ref, low: null, high: null }), this.layout.relative),
        ...(clocks ? [button("Cycles", "In clock cycles, where the device counted them (c): a step in time without one in cycles is the machine's", () => void this.swapClock(), cycles)] : [])),
      state.relative && state.ref ? h("span", { class: "pins" }, `to ${state.ref.slice(0, 8)} `, button("×", "Relative to the first point again", () => this.set({ ref: "" }))) : "",
      group("Show", button("Spread", "Range of processes or samples (b)", () => this.set({ band: !state.band }), state.band),
        ...(this.fixed ? [] : [button("Samples", "Raw samples of what is in view (s)", () => void this.toggleSamples(), state.samples)]),
        ...(this.graph.series.length > 1 ? [button("Apart", "One small graph a series (m)", () => this.set({ multiples: !state.multiples }), state.multiples)] : [])),
      group("Zoom", button("−", "Zoom out (−)", () => this.zoom(1.6)), button("+", "Zoom in (+)", () => this.zoom(0.625)), button("All", "Show all (0, or double click)", () => void this.whole())),
      a ? h("span", { class: "pins" }, `A ${a.sha.slice(0, 8)}${a.remark} `, b && h("a", { href: `/projects/${this.graph.project.slug}/compare?base=${a.sha}&head=${b.sha}` }, `compare with B ${b.sha.slice(0, 8)}`), b?.remark, " ", button("Clear", "Take the pins away", () => this.set({ pins: [] }))) : "",
      h("span", { class: "spacer" }),
      group("Keep", copier(), button("PNG", "Download as PNG", () => png(this.plots, this.graph.project.slug)),
        ...(this.fixed ? [] : (["svg", "csv", "json"] as const)).map((kind) => button(kind.toUpperCase(), `Download as ${kind.toUpperCase()}`, () => this.file(kind)))),
      group("Help", button("?", "Keys (?)", help)),
    );
  }

  private file(kind: "svg" | "csv" | "json"): void {
    const range = this.state.from === null ? "" : `&from=${Math.max(0, this.state.from)}&to=${Math.max(0, this.state.to ?? 0)}`;
    const url = (kind === "json" ? this.api("graph") : kind === "csv" ? this.api("graph.csv") : this.api("graph.svg").replace("/api/v1", "")) + range + (this.state.log ? "&y=log" : "") + (this.state.relative ? `&mode=relative&ref=${encodeURIComponent(this.state.ref)}` : "");
    const link = h("a", { href: url, download: `${this.graph.project.slug}.${kind}` });
    link.click();
  }

  private async toggleSamples(): Promise<void> {
    this.set({ samples: !this.state.samples });
    if (this.state.samples) await this.fetchSamples();
    else {
      this.clouds.clear();
      this.draw();
    }
  }

  private async fetchSamples(): Promise<void> {
    const { from, to, x } = this.state;
    const range = from !== null && x === "commit" ? `?from=${Math.max(0, from)}&to=${Math.max(0, to ?? 0)}` : "";
    for (const { series } of this.graph.series.slice(0, 8)) {
      const found = await load<{ revision: string[]; value: (number | null)[]; state: string[] }>(`/api/v1/projects/${this.graph.project.slug}/series/${series.id}/samples${range}`);
      const xs = new Map(this.graph.revisions.sha.map((sha, i) => [short(sha), this.layout.xOf(i)]));
      const cloud: Cloud = { x: [], y: [], used: [] };
      found.value.forEach((value, i) => {
        const at = xs.get(short(found.revision[i] ?? ""));
        if (value === null || at == null) return;
        cloud.x.push(at);
        cloud.y.push(value);
        cloud.used.push(found.state[i] === "valid");
      });
      this.clouds.set(series.id, cloud);
    }
    for (const u of this.plots) u.redraw();
  }

  private step(by: number): void {
    const lines = this.layout.lines.filter((l) => !this.state.hidden.includes(l.series.series.id));
    const line = this.cursor && lines.includes(this.cursor.line) ? this.cursor.line : lines[0];
    const u = line && this.plotOf(line);
    if (!line || !u) return;
    let index = this.cursor?.line === line ? this.cursor.index + by : line.x.length - 1;
    while (line.y[index] === null && index > 0 && index < line.x.length - 1) index += by;
    index = Math.max(0, Math.min(line.x.length - 1, index));
    const left = u.valToPos(line.x[index] ?? 0, "x"), top = u.valToPos(line.y[index] ?? 0, "y");
    this.card.close();
    u.setCursor({ left, top }, false);
    this.show({ line, index, left, top }, u, false);
  }

  private plotOf(line: Line): uPlot | undefined {
    return this.plots[this.plots.length > 1 ? this.layout.lines.indexOf(line) : 0];
  }

  private other(by: number): void {
    const lines = this.layout.lines.filter((l) => !this.state.hidden.includes(l.series.series.id));
    const now = this.cursor ? lines.indexOf(this.cursor.line) : -1;
    const line = lines[(now + by + lines.length) % lines.length];
    if (line) {
      this.cursor = { line, index: Math.min(this.cursor?.index ?? line.x.length - 1, line.x.length - 1), left: 0, top: 0 };
      this.step(0);
    }
  }

  private keyboard(): void {
    listen(this.plot, {
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), ArrowUp: () => this.other(-1), ArrowDown: () => this.other(1),
      Enter: () => this.keep(), Escape: () => this.card.close(), "+": () => this.zoom(0.625), "=": () => this.zoom(0.625),
      "-": () => this.zoom(1.6), "[": () => this.pan(-0.25), "]": () => this.pan(0.25), c: () => void this.swapClock(), p: () => this.pinHere(), "0": () => void this.whole(), l: () => this.set({ log: !this.state.log }),
      r: () => this.set({ relative: !this.state.relative, ref: "" }), b: () => this.set({ band: !this.state.band }), s: () => void this.toggleSamples(),
      m: () => this.set({ multiples: !this.state.multiples }),
      x: () => this.set({ x: X_MODES[(X_MODES.findIndex(([mode]) => mode === this.state.x) + 1) % 3]?.[0] ?? "commit", from: null, to: null }),
      "?": help,
    });
  }

  private zoom(factor: number): void {
    for (const u of this.plots) zoom(u, factor);
  }

  private pan(share: number): void {
    for (const u of this.plots) {
      const { min, max } = u.scales["x"] ?? {};
      if (min != null && max != null) u.setScale("x", { min: min + share * (max - min), max: max + share * (max - min) });
    }
  }

  private pinHere(): void {
    const sha = this.cursor && this.graph.revisions.sha[this.cursor.line.series.points.revision[this.cursor.index] ?? 0];
    if (sha) this.pin(sha);
  }

  private keep(): void {
    const u = this.cursor && this.plotOf(this.cursor.line);
    if (u && this.cursor) {
      this.card.show(this.cursor, this.plot, u.over, true);
      one<HTMLElement>("a", this.card.element)?.focus();
    }
  }

  private resize(): void {
    for (const u of this.plots) {
      const width = Math.max(280, u.root.parentElement?.clientWidth ?? 0);
      if (u.width !== width) u.setSize({ width, height: u.height });
    }
  }
}

function name(series: SeriesRef): string {
  return [`${series.suite} ${series.metric}`, params(series.params), series.hardware].filter(Boolean).join(" · ");
}

export function start(): void {
  const root = one<HTMLElement>("[data-graph]"), data = one<HTMLScriptElement>("#data");
  const plot = root && one<HTMLElement>("[data-plot]", root), legend = root && one<HTMLElement>("[data-legend]", root);
  const toolbar = root && one<HTMLElement>("[data-toolbar]", root);
  if (root && data && plot && legend && toolbar) new GraphPage(unpacked(data.textContent ?? "{}"), root, plot, legend, toolbar);
}

export { joined };
