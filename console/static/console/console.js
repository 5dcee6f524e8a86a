// What every page of the console has: local times, charts and live regions.
import { startActions } from "./actions.js";
import { drawCharts } from "./charts.js";
import { startList } from "./list.js";
import { startLive } from "./live.js";
import { startPalette } from "./palette.js";
import { startPriority } from "./priority.js";
import { startSubmit } from "./submit.js";
import { showTimes } from "./times.js";

function start() {
  decorate(document);
  document.addEventListener("wms2:updated", (event) => decorate(event.target));
  startActions();
  startPalette();
  startPriority();
  startSubmit();
  startList();
  startLive();
}

function decorate(root) {
  showTimes(root);
  drawCharts(root);
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
