// The page of a request: graph, time slider, filter of the failure matrix, and ages of times.
import { startAges } from "./ages.js";
import { startGraph } from "./graph.js";
import { startMatrix } from "./matrix.js";
import { startTime } from "./time.js";

const page = document.getElementById("request");
if (page) {
  const topic = `request:${page.dataset.name}`;
  startAges(page);
  startMatrix(page);
  startTime(document.getElementById("request-time"));
  startGraph(document.getElementById("graph"), topic);
}
