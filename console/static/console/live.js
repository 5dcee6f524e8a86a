// Keeps the page up to date without a reload. A region is an element with data-live, data-url and data-etag
// (template tag `live`). Its content arrives by one event stream per page, at first as a whole, then as changed lines;
// or, while there is no stream, by polling with the ETag. A hidden tab closes its stream and catches up when it is
// shown again.
import { read } from "./http.js";
import { indicate } from "./indicator.js";
import { morph } from "./morph.js";

const POLL_MS = 5_000;
const LOST_MS = 2_000; // within it all pages read once after their stream has ended
const SILENCE_MS = 40_000; // the stream sends a beat every 15 s
const PATIENCE_MS = 3_000; // for a stream to open before polling begins
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 30_000;
const listeners = new Map(); // topic → functions
const texts = new Map(); // region → the markup that its content was made of
let source = null;
let retryMs = FIRST_RETRY_MS;
let missed = true; // changes may have happened while there was no stream: since the page was made, at first
const timers = {};

// Calls `listener(topics)` after changes of any of the topics; also after an interruption.
export function subscribe(topics, listener) {
  for (const topic of topics) {
    if (!listeners.has(topic)) listeners.set(topic, new Set());
    listeners.get(topic).add(listener);
  }
}

export function startLive() {
  if (!topicsOfPage().length && !regions().length) return;
  document.addEventListener("visibilitychange", () => (document.hidden ? pause() : connect()));
  window.addEventListener("pagehide", pause);
  if (!document.hidden) connect();
}

function regions() {
  return [...document.querySelectorAll("[data-live]")];
}

function topicsOfPage() {
  const named = [...document.querySelectorAll("[data-topics]")].flatMap((one) => one.dataset.topics.split(" "));
  return [...new Set([...named, ...listeners.keys()])].filter(Boolean);
}

function pause() {
  close();
  missed = true;
  clearTimeout(timers.poll);
  clearTimeout(timers.retry);
  indicate("paused");
}

function close() {
  clearTimeout(timers.silence);
  source?.close();
  source = null;
}

function connect() {
  close();
  clearTimeout(timers.retry);
  const address = document.querySelector("[data-streams]")?.dataset.streams;
  if (!address) return poll();
  const url = new URL(address, location.href);
  for (const topic of topicsOfPage()) url.searchParams.append("topic", topic);
  for (const one of regions()) {
    url.searchParams.append("fragment", `${one.dataset.live}/${one.dataset.of}`);
    url.searchParams.append("etag", one.dataset.etag);
  }
  source = new EventSource(url, { withCredentials: true });
  source.addEventListener("hello", onHello);
  source.addEventListener("beat", watchSilence);
  source.addEventListener("change", (event) => onChange(JSON.parse(event.data)));
  source.addEventListener("fragment", (event) => onFragment(JSON.parse(event.data)));
  source.addEventListener("patch", (event) => onPatch(JSON.parse(event.data)));
  source.addEventListener("resync", poll);
  source.addEventListener("web", (event) => onWeb(JSON.parse(event.data)));
  source.addEventListener("bye", onBye);
  source.addEventListener("error", onLost);
  watchSilence();
  startPolling(PATIENCE_MS);
}

// The stream sends fragments that are newer than those of the page by itself.
function onHello(event) {
  retryMs = FIRST_RETRY_MS;
  clearTimeout(timers.poll);
  watchSilence();
  if (missed) tell(listeners.keys());
  missed = false;
  onWeb(JSON.parse(event.data).web);
}

function onWeb(answers) {
  watchSilence();
  indicate(answers ? "live" : "down");
}

function watchSilence() {
  clearTimeout(timers.silence);
  timers.silence = setTimeout(onLost, SILENCE_MS);
}

function onLost() {
  close();
  missed = true;
  if (document.hidden) return;
  startPolling(LOST_MS * Math.random());
  timers.retry = setTimeout(connect, retryMs * (0.5 + Math.random()));
  retryMs = Math.min(2 * retryMs, LAST_RETRY_MS);
}

function onBye() {
  pause();
  indicate("ended");
}

function onChange(topics) {
  watchSilence();
  tell(topics);
}

function onFragment({ fragment, etag, html }) {
  watchSilence();
  const region = regionOf(fragment);
  if (region && region.dataset.etag !== etag) replace(region, { etag, text: html });
}

// Changes lines of the last version; without that version the region is read as a whole.
function onPatch({ fragment, base, etag, edits }) {
  watchSilence();
  const region = regionOf(fragment);
  if (!region || region.dataset.etag === etag) return;
  if (region.dataset.etag !== base || !texts.has(region)) return startPolling(0);
  const lines = texts.get(region).split("\n");
  for (const [start, end, wanted] of edits.toReversed()) lines.splice(start, end - start, ...wanted);
  replace(region, { etag, text: lines.join("\n") });
}

function regionOf(fragment) {
  return regions().find((one) => `${one.dataset.live}/${one.dataset.of}` === fragment);
}

function tell(topics) {
  const called = new Map();
  for (const topic of topics) {
    for (const listener of listeners.get(topic) ?? []) called.set(listener, [...(called.get(listener) ?? []), topic]);
  }
  for (const [listener, changed] of called) listener(changed);
}

function startPolling(delayMs = POLL_MS) {
  clearTimeout(timers.poll);
  timers.poll = setTimeout(poll, delayMs);
}

async function poll() {
  const outcome = await catchUp();
  const streaming = source?.readyState === EventSource.OPEN;
  if (outcome === "ended" || document.hidden || (streaming && outcome === "answered")) return;
  if (!streaming) indicate(outcome === "answered" ? "polling" : "down");
  startPolling();
}

// Reads every region whose content is not the newest, and tells all listeners. Returns answered, silent, or ended.
async function catchUp() {
  tell(listeners.keys());
  try {
    for (const region of regions()) {
      const { etag } = region.dataset;
      const found = await read(region.dataset.url, { etag });
      if (found && region.dataset.etag === etag) replace(region, found); // else the stream was faster
    }
    return "answered";
  } catch (problem) {
    if (problem.status !== 401 && problem.status !== 403) return "silent";
    onBye();
    return "ended";
  }
}

function replace(region, { etag, text }) {
  morph(region, text);
  texts.set(region, text);
  region.dataset.etag = etag;
  region.dispatchEvent(new CustomEvent("wms2:updated", { bubbles: true }));
}
