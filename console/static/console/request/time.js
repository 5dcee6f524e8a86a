// The time slider: shows status, progress, reasons and decisions as they were recorded at an earlier time.
import { readJson } from "../http.js";
import { toastProblem } from "../toasts.js";
import { facts, make } from "./dom.js";

const WAIT_MS = 150;
const SHOWN_DECISIONS = 5;

export function startTime(box) {
  if (!box) return;
  const slider = box.querySelector("#time-slider");
  const shown = box.querySelector("#time-shown");
  const state = box.querySelector("#time-state");
  const back = box.querySelector("#time-now");
  let timer = 0;

  function moment() {
    const begin = Date.parse(box.dataset.begin);
    return new Date(begin + ((Date.now() - begin) * slider.value) / slider.max);
  }

  function choose() {
    const now = slider.value === slider.max;
    back.hidden = now;
    shown.textContent = now ? "now" : `${text(moment())} UTC`;
    slider.setAttribute("aria-valuetext", shown.textContent);
    clearTimeout(timer);
    if (now) state.hidden = true;
    else timer = setTimeout(read, WAIT_MS);
  }

  async function read() {
    const asked = slider.value;
    const at = new Date(Math.ceil(moment() / 1000) * 1000).toISOString(); // the creation has fractions of a second
    try {
      const { body } = await readJson(`${box.dataset.url}?at=${at}`);
      if (slider.value === asked) show(body);
    } catch (problem) {
      toastProblem(problem);
    }
  }

  function show(body) {
    state.replaceChildren(describe(body), ...evidence(body), decisions(body));
    state.hidden = false;
  }

  slider.addEventListener("input", choose);
  back.addEventListener("click", () => {
    slider.value = slider.max;
    choose();
    slider.focus();
  });
}

function describe(body) {
  const { progress } = body;
  return facts([
    ["Status then", `${words(body.status)} since ${text(new Date(body.status_since))} UTC, by ${body.actor}`],
    ["Reason", body.reason],
    ["Waited for", body.wait_reason],
    ["Progress", progress && amount(progress)],
    ["Expected end then", progress?.estimated_completion && `${text(new Date(progress.estimated_completion))} UTC`],
    ["DAGs", body.dags.map((dag) => `${dag.kind} of round ${dag.round}`).join(", ")],
  ]);
}

function amount(progress) {
  const done = progress.events_done + progress.events_running;
  const percent = progress.events_total ? (100 * done) / progress.events_total : 0;
  const jobs = `${progress.jobs_running} jobs running, ${progress.jobs_idle} idle, ${progress.jobs_held} held`;
  return `${percent.toFixed(1)} %: ${done.toLocaleString("en")} of ${progress.events_total.toLocaleString("en")} events; ${jobs}`;
}

function evidence(body) {
  if (!body.hold_evidence) return [];
  const text = JSON.stringify(body.hold_evidence, null, 2);
  return [make("details", {}, make("summary", {}, "Evidence of the hold"), make("pre", { class: "wms2-log", tabindex: "0" }, text))];
}

function decisions(body) {
  const rows = body.decisions.slice(0, SHOWN_DECISIONS).map((one) => {
    const what = one.kind === "status" ? `${words(one.from_status || "created")} → ${words(one.to_status)}` : words(one.kind);
    return make("li", {}, `${text(new Date(one.at))} ${what} by ${one.actor}: ${one.reason}`);
  });
  return make("ul", { class: "wms2-list", "aria-label": "Decisions before" }, ...rows);
}

function words(value) {
  return value.replaceAll("_", " ");
}

function text(at) {
  return at.toISOString().slice(0, 16).replace("T", " ");
}
