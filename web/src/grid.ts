/** The grid: finds while one types, and loads further cards when the end comes into view. */

import { one } from "./dom";

export function start(): void {
  const form = one<HTMLFormElement>("[data-grid-form]");
  if (!form) return;
  let timer = 0, asked = 0;
  const watcher = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) void further();
  }, { rootMargin: "1200px" });
  const watch = (): void => {
    const more = one(".more");
    if (more) watcher.observe(more);
  };

  /** The page at ``url``, of which the part below the filters is taken. */
  const page = async (url: string): Promise<Document> =>
    new DOMParser().parseFromString(await (await fetch(url, { credentials: "same-origin" })).text(), "text/html");

  const find = async (): Promise<void> => {
    const mine = ++asked;
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (typeof value === "string" && value && !(name === "sort" && value === "name")) query.set(name, value);
    const url = form.action + (query.size ? `?${query}` : "");
    const found = await page(url);
    if (mine !== asked) return;
    history.replaceState(null, "", url);
    const main = one("main"), fresh = one("main", found);
    if (!main || !fresh) return;
    while (form.nextSibling) form.nextSibling.remove();
    const begin = one("[data-grid-form]", fresh);
    while (begin?.nextSibling) main.append(begin.nextSibling);
    // The facets that are left change with the choice; what is being typed into stays.
    for (const select of form.querySelectorAll("select")) {
      const other = begin && one<HTMLSelectElement>(`select[name="${CSS.escape(select.name)}"]`, begin);
      if (other && document.activeElement !== select) select.replaceChildren(...other.childNodes);
    }
    watch();
  };

  let loading = false;
  const further = async (): Promise<void> => {
    const link = one<HTMLAnchorElement>(".more a[rel=next]"), grid = one(".grid");
    if (!link || !grid || loading) return;
    loading = true;
    const mine = asked;
    const next = await page(link.href);
    loading = false;
    if (mine !== asked) return;
    const known = new Set([...grid.querySelectorAll(".group h2")].map((head) => head.textContent));
    for (const item of one(".grid", next)?.querySelectorAll("li") ?? []) {
      if (item.classList.contains("group") && known.has(item.textContent?.trim() ?? "")) continue;
      grid.append(item);
    }
    const more = one(".more", next);
    watcher.disconnect();
    link.closest(".more")?.remove();
    if (more) grid.after(more);
    watch();
  };

  form.addEventListener("submit", (e) => {
    e.preventDefault();
    void find();
  });
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => void find(), 160);
  });
  watch();
}
