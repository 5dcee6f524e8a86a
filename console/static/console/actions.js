// The form of an operation: shows the effect of what is typed so far, and again when something changes.
import { Problem, send } from "./http.js";
import { subscribe } from "./live.js";
import { morph } from "./morph.js";
import { toastProblem } from "./toasts.js";

const PAUSE_MS = 400;
const TOPICS = ["fleet", "sites", "admission", "alerts"];

export function startActions() {
  const form = document.querySelector("[data-action-form]");
  const effects = document.getElementById("action-effects");
  if (!form || !effects) return;
  let timer;
  const refresh = () => {
    clearTimeout(timer);
    timer = setTimeout(() => show(form, effects), PAUSE_MS);
  };
  form.addEventListener("input", refresh);
  subscribe(TOPICS, refresh);
}

async function show(form, effects) {
  const data = new FormData(form);
  data.delete("_confirmed");
  data.set("_preview", "1");
  try {
    const answer = await send(location.href, { method: "POST", body: data });
    morph(effects, await answer.text());
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    toastProblem(problem);
  }
}
