/** ⌘K: find anything from anywhere. */

import { h } from "./dom";
import { load, type Hit } from "./model";

export function start(): void {
  const input = h("input", { type: "search", placeholder: "Find a benchmark, commit, pull request, regression or node", "aria-label": "Find", autocomplete: "off", role: "combobox", "aria-expanded": "true", "aria-controls": "hits" });
  const list = h("ul", { id: "hits", role: "listbox", "aria-label": "Found" });
  const dialog = h("dialog", { class: "palette", "aria-label": "Search" }, input, list);
  document.body.append(dialog);
  let at = 0, asked = 0, timer = 0;

  const open = (): void => {
    if (!dialog.open) dialog.showModal();
    input.select();
  };
  const choose = (index: number): void => {
    const items = [...list.querySelectorAll("li[role=option]")];
    at = items.length ? (index + items.length) % items.length : 0;
    items.forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    items[at]?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", items[at]?.id ?? "");
  };
  const find = async (): Promise<void> => {
    const mine = ++asked, query = input.value.trim();
    const hits = query.length < 2 ? [] : (await load<{ hits: Hit[] }>(`/api/v1/search?q=${encodeURIComponent(query)}`)).hits;
    if (mine !== asked) return;
    list.replaceChildren(...hits.map((hit, i) =>
      h("li", { role: "option", id: `hit-${i}` }, h("a", { href: hit.url, tabindex: "-1" }, h("span", { class: "badge kind" }, hit.kind), ` ${hit.title} `, h("span", { class: "faint" }, hit.detail)))));
    if (!hits.length && query.length > 1) list.append(h("li", { class: "empty", role: "presentation" }, "Nothing found."));
    choose(0);
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => void find(), 90);
  });
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown") choose(at + 1);
    else if (e.key === "ArrowUp") choose(at - 1);
    else if (e.key === "Enter") list.querySelector<HTMLAnchorElement>("li[aria-selected=true] a")?.click();
    else return;
    e.preventDefault();
  });
  dialog.addEventListener("click", (e) => e.target === dialog && dialog.close());
  document.addEventListener("keydown", (e) => {
    if ((e.metaKey || e.ctrlKey) && e.key.toLowerCase() === "k") {
      e.preventDefault();
      open();
    }
  });
  for (const link of document.querySelectorAll("[data-search-open]")) {
    link.addEventListener("click", (e) => {
      e.preventDefault();
      open();
    });
  }
}
