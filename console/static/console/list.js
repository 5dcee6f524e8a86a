// Keeps the rows of a list up to date: after a change the page is read again and its rows are changed in place, so
// that ticked rows, scroll and focus survive. A slow server is asked less often.
import { read } from "./http.js";
import { subscribe } from "./live.js";
import { morphTo } from "./morph.js";

const LEAST_PAUSE_MS = 2_000;
const SHARE = 20; // a page keeps the server busy for at most one part in so many
let timer = 0;
let nextAt = 0;
let reading = false;
let changed = false; // while the page was read: perhaps after the server had read its rows

export function startList() {
  const topics = document.querySelector("[data-live-list] [data-topics]")?.dataset.topics.split(" ");
  if (!topics) return;
  subscribe(topics, refreshSoon);
}

function refreshSoon() {
  if (reading) changed = true;
  else timer ||= setTimeout(refresh, Math.max(0, nextAt - performance.now()));
}

async function refresh() {
  const began = performance.now();
  reading = true;
  try {
    const { text } = await read(location.href);
    show(new DOMParser().parseFromString(text, "text/html"));
  } catch {
    // live.js says that WMS2 does not answer, and calls again when it does
  } finally {
    timer = 0;
    reading = false;
    nextAt = performance.now() + Math.max(LEAST_PAUSE_MS, SHARE * (performance.now() - began));
    if (changed) refreshSoon();
    changed = false;
  }
}

function show(page) {
  const [present, wanted] = [document, page].map((one) => one.getElementById("result_list"));
  if (!present || !wanted) {
    if (present || wanted) location.reload(); // from or to an empty list
    return;
  }
  for (const rows of [present, wanted]) name(rows);
  const ticked = new Set([...present.querySelectorAll("input[name=_selected_action]:checked")].map((one) => one.value));
  for (const box of wanted.querySelectorAll("input[name=_selected_action]")) {
    box.closest("tr").classList.toggle("selected", ticked.has(box.value));
  }
  morphTo(present, present.tHead.cloneNode(true), ...wanted.tBodies); // the headers stay as they are
}

// Rows are matched by what they link to. Nothing is between them: a row that only keeps its place is not moved then,
// since an element that is moved loses a click that has begun.
function name(table) {
  for (const node of [...table.childNodes]) if (node.nodeType === Node.TEXT_NODE) node.remove();
  for (const body of table.tBodies) body.dataset.key = body.querySelector("a[href]")?.getAttribute("href").split("?")[0] ?? "";
}
