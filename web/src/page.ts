/** Small things that every page has: colours, times, tables that sort and filter. */

import { ago } from "./format";
import { h, one } from "./dom";

const THEMES = ["auto", "light", "dark"];

export function theme(): void {
  const toggle = one<HTMLButtonElement>("[data-theme-toggle]");
  if (!toggle) return;
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const root = document.documentElement;
    const next = THEMES[(THEMES.indexOf(root.dataset["theme"] ?? "auto") + 1) % THEMES.length] ?? "auto";
    root.dataset["theme"] = next;
    toggle.title = `Colours: ${next}`;
    document.cookie = `theme=${next}; path=/; max-age=31536000; samesite=lax`;
    document.dispatchEvent(new Event("groundspeed:theme"));
  });
}

/** Times as distances, with the date in the title; again every half minute. */
export function times(): void {
  writeTimes();
  setInterval(writeTimes, 30_000);
}

export function writeTimes(): void {
  const now = new Date();
  for (const element of document.querySelectorAll<HTMLTimeElement>("main time[datetime]:not(.log time)")) {
    const text = ago(new Date(element.dateTime), now);
    element.title = element.dateTime.replace("T", " ").replace("Z", " UTC");
    if (text !== null) element.textContent = text;
  }
}

/** What scrolls sideways can be reached, and so scrolled, by the keyboard. Measured when it is laid out anyway. */
export function scrollers(): void {
  const watcher = new ResizeObserver((entries) => {
    for (const box of new Set(entries.map(({ target }) => target.closest<HTMLElement>(".scroll")))) {
      if (!box) continue;
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else if (!box.hasAttribute("role")) box.removeAttribute("tabindex");
    }
  });
  for (const box of document.querySelectorAll<HTMLElement>(".scroll")) for (const one of [box, ...box.children]) watcher.observe(one);
}

/** Where a browser does not say that it has painted. */
const PAINTED_MS = 400;

/** Comes true once the page as it came has been seen, or at once where nobody looks at it. */
export function painted(): Promise<void> {
  return new Promise((done) => {
    if (document.hidden) done();
    new PerformanceObserver((entries) => entries.getEntriesByName("first-contentful-paint").length && done()).observe({ type: "paint", buffered: true });
    setTimeout(done, PAINTED_MS);
  });
}

/** Forms that ask again as soon as their kind is chosen: what stood in their other fields was of the other kind. */
export function resubmits(): void {
  for (const select of document.querySelectorAll<HTMLSelectElement>("select[data-resubmit]")) {
    select.addEventListener("change", () => {
      for (const other of select.form?.elements ?? []) {
        if (other !== select && (other instanceof HTMLInputElement || other instanceof HTMLSelectElement)) other.disabled = true;
      }
      select.form?.requestSubmit();
    });
  }
}

/** Cards of a site without a server are found here: all of them are on the page. */
export function cards(): void {
  const input = one<HTMLInputElement>("input[data-cards]"), grid = one(".grid");
  if (!input || !grid) return;
  input.hidden = false;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let group = "";
    for (const item of grid.querySelectorAll<HTMLElement>("li")) {
      if (item.classList.contains("group")) group = (item.textContent ?? "").toLowerCase();
      const text = `${group} ${(item.textContent ?? "").toLowerCase()}`;
      item.hidden = item.classList.contains("group") ? false : !words.every((word) => text.includes(word));
    }
    for (const head of grid.querySelectorAll<HTMLElement>(".group")) {
      let next = head.nextElementSibling;
      while (next instanceof HTMLElement && next.hidden) next = next.nextElementSibling;
      head.hidden = next === null || next.classList.contains("group");
    }
  });
}

export function tables(): void {
  for (const table of document.querySelectorAll<HTMLTableElement>("table.sortable")) {
    const heads = [...table.querySelectorAll<HTMLTableCellElement>("thead th")];
    heads.forEach((head, column) => {
      const label = head.textContent ?? "";
      const sort = h("button", { type: "button", class: "sort" }, label);
      head.replaceChildren(sort);
      sort.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        order(table, column, down ? -1 : 1);
      });
    });
  }
  for (const input of document.querySelectorAll<HTMLInputElement>("input[data-filter]")) {
    const table = one<HTMLTableElement>(input.dataset["filter"] ?? "");
    if (!table) continue;
    input.hidden = false;
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of table.tBodies[0]?.rows ?? []) {
        const text = (row.textContent ?? "").toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
  }
}

function order(table: HTMLTableElement, column: number, way: number): void {
  const body = table.tBodies[0];
  if (!body) return;
  const key = (row: HTMLTableRowElement): number | string => {
    const cell = row.cells[column];
    const value = cell?.dataset["value"];
    if (value !== undefined) return value === "" ? Number.NEGATIVE_INFINITY : Number(value);
    return (cell?.textContent ?? "").trim().toLowerCase();
  };
  const rows = [...body.rows].map((row) => ({ row, key: key(row) }));
  rows.sort((a, b) => way * (typeof a.key === "number" && typeof b.key === "number" ? a.key - b.key : String(a.key).localeCompare(String(b.key), undefined, { numeric: true })));
  body.append(...rows.map(({ row }) => row));
}
