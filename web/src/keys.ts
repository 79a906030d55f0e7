/** What the keys and the mouse do in a graph, and where one reads it. */

import { h } from "./dom";

const KEYS: [string, string][] = [
  ["← →", "from point to point"], ["↑ ↓", "to the next series"], ["Enter", "keep the card of a point"], ["p", "pin a point; two are compared"],
  ["drag", "zoom to a box"], ["Shift drag, [ ]", "move along"], ["Ctrl wheel, + −", "zoom"], ["0, double click", "show all"],
  ["x", "commits, dates, environments"], ["l", "logarithmic"], ["r", "relative"], ["c", "cycles or time"], ["b", "spread"], ["s", "samples"],
  ["m", "one small graph a series"], ["?", "this list"],
];

/** Opens the list of keys, which Escape or a click beside it closes. */
export function help(): void {
  const dialog = h("dialog", { class: "keys", "aria-label": "Keys" }, h("b", {}, "In the graph"),
    h("dl", {}, ...KEYS.flatMap(([keys, meaning]) => [h("dt", {}, ...keys.split(", ").flatMap((key, i) => [i > 0 && " ", h("kbd", {}, key)])), h("dd", {}, meaning)])));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}

/** Listens to the keys of ``plot``; those with Ctrl, Alt or ⌘ are the browser's, and those in a card the card's. */
export function listen(plot: HTMLElement, actions: Record<string, () => void>): void {
  plot.tabIndex = 0;
  plot.setAttribute("role", "application");
  plot.setAttribute("aria-label", "Graph. Arrow keys go from point to point, Enter keeps the card, p pins the point, plus and minus zoom, brackets move along, 0 shows all, a question mark lists all keys. The points stand in a table below.");
  plot.addEventListener("keydown", (e) => {
    const action = e.ctrlKey || e.metaKey || e.altKey || (e.target as HTMLElement).closest(".hover-card") ? undefined : actions[e.key];
    if (action) {
      e.preventDefault();
      action();
    }
  });
}
