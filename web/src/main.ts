import * as grid from "./grid";
import * as live from "./live";
import { cards, resubmits, scrollers, tables, theme, times } from "./page";
import * as palette from "./palette";

theme();
times();
tables();
resubmits();
scrollers();
addEventListener("resize", scrollers);
cards();
if (!document.body.dataset["static"]) {
  palette.start();
  grid.start();
  live.start();
}
// The plotting library comes only with the page that needs it.
if (document.querySelector("[data-graph]")) void import("./graph").then((graph) => graph.start());
