/** Taking a view along: its address, its picture. */

import type uPlot from "uplot";
import { button, download, h } from "./dom";

/** Copies the address, and says that it has. */
export function copier(): HTMLButtonElement {
  const made = button("Link", "Copy the address of this view", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      made.textContent = "Copied";
    } catch {
      made.textContent = "See the address bar";
    }
    setTimeout(() => (made.textContent = "Link"), 1600);
  });
  return made;
}

/** The plots below one another as one PNG. */
export function png(plots: uPlot[], slug: string): void {
  const sources = plots.map((u) => u.ctx.canvas);
  const width = Math.max(...sources.map((c) => c.width)), height = sources.reduce((sum, c) => sum + c.height, 0);
  const sheet = h("canvas", { width: String(width), height: String(height) });
  const ctx = sheet.getContext("2d");
  if (!ctx) return;
  ctx.fillStyle = getComputedStyle(document.body).backgroundColor;
  ctx.fillRect(0, 0, width, height);
  let y = 0;
  for (const canvas of sources) {
    ctx.drawImage(canvas, 0, y);
    y += canvas.height;
  }
  sheet.toBlob((blob) => blob && download(`${slug}.png`, blob));
}
