/** Pages of work that goes on: the page is asked for again when something happens, logs are streamed. */

import { h, one } from "./dom";
import { scrollers, writeTimes } from "./page";

interface Line { seq: number; at: string | number; stream: string; text: string }

const EVERY = 4000;

export function start(): void {
  if (!document.body.dataset["live"]) return;
  const events = document.body.dataset["events"];
  let busy = false, last = "";
  const inUse = (): boolean => document.hidden || document.querySelector("main form :focus, dialog[open]") !== null;
  const page = async (cache: RequestCache): Promise<string> => (await fetch(location.href, { cache, credentials: "same-origin" })).text();
  const refresh = async (): Promise<void> => {
    if (busy || inUse()) return;
    busy = true;
    try {
      // First of all what the browser loaded, from its cache: whatever changed since then is seen.
      last ||= await page("force-cache");
      const text = await page("no-cache");
      if (text === last || inUse()) return; // somebody may have begun to write since it was asked for
      swap(text);
      last = text;
    } catch {
      // The service is away for a moment; the next turn asks again.
    } finally {
      busy = false;
    }
  };
  setInterval(() => void refresh(), EVERY);
  void refresh();
  document.addEventListener("visibilitychange", () => void refresh());
  if (events) {
    const source = new EventSource(events);
    for (const name of ["message", "state", "progress", "job", "request", "done"]) source.addEventListener(name, () => void refresh());
  }
  logs();
}

/** The new page's main part in place of the old; logs that stream stay as they are. */
function swap(text: string): void {
  const fresh = one("main", new DOMParser().parseFromString(text, "text/html")), main = one("main");
  if (!fresh || !main) return;
  for (const log of main.querySelectorAll<HTMLElement>("[data-streaming]")) {
    const other = [...fresh.querySelectorAll<HTMLElement>(".log")].find((one_) => one_.getAttribute("aria-label") === log.getAttribute("aria-label"));
    other?.replaceWith(log);
  }
  for (const details of main.querySelectorAll("details[open]")) {
    const label = details.querySelector("summary")?.textContent;
    for (const other of fresh.querySelectorAll("details")) if (other.querySelector("summary")?.textContent === label) other.open = true;
  }
  main.replaceChildren(...fresh.childNodes);
  writeTimes();
  scrollers();
  logs();
}

function logs(): void {
  for (const log of document.querySelectorAll<HTMLElement>("[data-log]:not([data-streaming])")) {
    log.dataset["streaming"] = "1";
    log.scrollTop = log.scrollHeight;
    let after = Number(log.dataset["after"] ?? "-1");
    const source = new EventSource(`${log.dataset["log"]}?after=${after}`);
    source.addEventListener("log", (event) => {
      const data = JSON.parse((event as MessageEvent<string>).data) as Line | Line[] | { lines: Line[] };
      const lines = Array.isArray(data) ? data : "lines" in data ? data.lines : [data];
      const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      for (const line of lines) {
        if (line.seq <= after) continue;
        after = line.seq;
        log.append(row(line));
      }
      if (atEnd) log.scrollTop = log.scrollHeight;
    });
    source.addEventListener("done", () => source.close());
    let opened = false;
    source.addEventListener("open", () => (opened = true));
    source.addEventListener("error", () => {
      // No stream to be had: the log then comes with the page, which is asked for again anyway.
      if (!opened && source.readyState === EventSource.CLOSED) delete log.dataset["streaming"], delete log.dataset["log"];
    });
  }
}

function row(line: Line): HTMLElement {
  const at = typeof line.at === "number" ? new Date(line.at * 1000) : new Date(line.at);
  const iso = at.toISOString();
  return h("div", { class: `line ${/^[a-z]+$/.test(line.stream) ? line.stream : ""}` }, h("time", { datetime: iso }, iso.slice(11, 19)), h("span", {}, line.text));
}
