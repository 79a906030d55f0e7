import * as grid from "./grid";
import * as live from "./live";
import { cards, painted, resubmits, scrollers, tables, theme, times } from "./page";
import * as palette from "./palette";

theme();
times();
tables();
resubmits();
scrollers();
cards();
if (!document.body.dataset["static"]) {
  palette.start();
  grid.start();
  live.start();
}
// The plotting library comes only with the page that needs it, and takes over from what the server drew once that is seen.
if (document.querySelector("[data-graph]")) void painted().then(() => import("./graph")).then((graph) => graph.start());
