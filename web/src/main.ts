import * as grid from "./grid";
import * as live from "./live";
import { cards, painted, resubmits, scrollers, tables, theme, times } from "./page";
import * as palette from "./palette";

theme();
tables();
resubmits();
scrollers();
cards();
if (!document.body.dataset["static"]) {
  palette.start();
  grid.start();
  live.start();
}
// What lays the page out anew waits until it is seen as it came: times in words, and the plotting library, which comes
// only with the page that needs it and takes over from what the server drew.
void painted().then(() => {
  times();
  if (document.querySelector("[data-graph]")) void import("./graph").then((graph) => graph.start());
});
