// The page of a request: graph, time slider, filter of the failure matrix, and ages of times.
import { startAges } from "./ages.js";
import { startGraph } from "./graph.js";
import { GraphData } from "./graph_data.js";
import { startMatrix } from "./matrix.js";
import { startTime } from "./time.js";

// This script runs as soon as it is there: the graph is read while the page is parsed and other scripts start.
const data = new GraphData(document.querySelector("script[data-graph]").dataset.graph);
const firstReading = data.refresh();
firstReading.catch(() => {}); // startGraph reports it

function start() {
  const page = document.getElementById("request");
  startGraph(document.getElementById("graph"), { data, firstReading, topic: `request:${page.dataset.name}` });
  startAges(page);
  startMatrix(page);
  startTime(document.getElementById("request-time"));
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
