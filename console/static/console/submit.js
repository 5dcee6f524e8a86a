// The submit page: checks the document while it is typed, plans one or two variants side by side, submits one.
import { Problem, send, write } from "./http.js";
import { toastProblem } from "./toasts.js";

const PAUSE_MS = 350;
const csrf = () => document.cookie.match(/(?:^|; )csrftoken=([^;]*)/)?.[1] ?? "";
let addresses;

export function startSubmit() {
  const root = document.querySelector("[data-submit]");
  if (!root) return;
  addresses = JSON.parse(document.getElementById("submit-addresses").textContent);
  const first = root.querySelector("[data-variant]");
  first.querySelector("[data-compare]").addEventListener("click", (event) => {
    event.currentTarget.hidden = true;
    root.append(begin(copyOf(first)));
    root.querySelector('[data-variant="B"] [data-text]').focus();
  });
  begin(first);
}

function copyOf(first) {
  const copy = first.cloneNode(true);
  copy.dataset.variant = "B";
  copy.setAttribute("aria-label", "Variant B");
  copy.querySelector("h2").firstChild.textContent = "Variant B ";
  copy.querySelector("[data-compare]").remove();
  copy.querySelector("[data-problems]").id = "problems-B";
  const text = copy.querySelector("[data-text]");
  text.setAttribute("aria-describedby", "problems-B");
  text.setAttribute("aria-label", "Document of variant B");
  text.value = first.querySelector("[data-text]").value;
  copy.querySelector("[data-result]").replaceChildren();
  return copy;
}

function begin(variant) {
  const text = variant.querySelector("[data-text]");
  const lines = variant.querySelector("[data-lines]");
  let timer;
  const later = () => {
    number(text, lines, []);
    variant.querySelector("[data-result]").replaceChildren(); // the plan of an earlier text
    clearTimeout(timer);
    timer = setTimeout(() => check(variant), PAUSE_MS);
  };
  text.addEventListener("input", later);
  text.addEventListener("scroll", () => (lines.scrollTop = text.scrollTop));
  variant.querySelector("[data-upload]").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) text.value = await file.text();
    later();
  });
  variant.querySelector("[data-plan]").addEventListener("click", () => plan(variant));
  variant.querySelector("[data-send]").addEventListener("click", (event) => submit(variant, event.currentTarget));
  number(text, lines, []);
  check(variant);
  return variant;
}

function number(text, lines, marked) {
  const count = text.value.split("\n").length;
  lines.replaceChildren(
    ...Array.from({ length: count }, (_, index) => {
      const line = document.createElement("span");
      line.textContent = String(index + 1);
      if (marked.includes(index + 1)) line.className = "wms2-wrong-line";
      return line;
    }),
  );
  lines.scrollTop = text.scrollTop;
}

async function check(variant) {
  const text = variant.querySelector("[data-text]");
  const sent = text.value;
  try {
    const headers = { Accept: "application/json", "Content-Type": "text/plain", "X-CSRFToken": csrf() };
    const answer = await send(addresses.check, { method: "POST", headers, body: sent });
    const { problems, request_name } = await answer.json();
    if (text.value === sent) showProblems(variant, problems, request_name);
  } catch (problem) {
    fail(problem);
  }
}

function showProblems(variant, problems, name) {
  const text = variant.querySelector("[data-text]");
  number(text, variant.querySelector("[data-lines]"), problems.map((one) => one.line));
  text.setAttribute("aria-invalid", String(problems.length > 0));
  for (const button of variant.querySelectorAll("[data-plan], [data-send]")) button.disabled = problems.length > 0;
  const box = variant.querySelector("[data-problems]");
  if (!problems.length) {
    box.replaceChildren(line(`The document is correct: request ${name}`, "success", "check_circle"));
    return;
  }
  box.replaceChildren(...problems.map(({ message, line: at }) => problemLine(text, message, at)));
}

function problemLine(text, message, at) {
  const item = line(message, "danger", "error");
  if (at) {
    const jump = document.createElement("button");
    jump.type = "button";
    jump.className = "wms2-link";
    jump.textContent = `line ${at}`;
    jump.addEventListener("click", () => select(text, at));
    item.append(" ", jump);
  }
  return item;
}

function select(text, at) {
  const rows = text.value.split("\n");
  const from = rows.slice(0, at - 1).join("\n").length + (at > 1 ? 1 : 0);
  text.focus();
  text.setSelectionRange(from, from + rows[at - 1].length);
  text.scrollTop = (at - 4) * (text.scrollHeight / rows.length);
}

function line(message, tone, icon) {
  const item = document.createElement("p");
  item.className = "wms2-problem";
  item.dataset.tone = tone;
  const mark = document.createElement("span");
  mark.className = "material-symbols-outlined wms2-icon";
  mark.setAttribute("aria-hidden", "true");
  mark.textContent = icon;
  item.append(mark, ` ${message}`);
  return item;
}

async function plan(variant) {
  const result = variant.querySelector("[data-result]");
  result.replaceChildren(Object.assign(document.createElement("div"), { className: "wms2-skeleton wms2-plan" }));
  try {
    result.replaceChildren(describe(await write(addresses.plan, documentOf(variant))));
  } catch (problem) {
    result.replaceChildren();
    fail(problem);
  }
}

const NUMBERS = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

function describe({ totals, estimate, pilot_first, more_rounds, estimated_completion }) {
  const facts = [
    ["Jobs", `${NUMBERS.format(totals.jobs)} in ${NUMBERS.format(totals.groups)} ${totals.groups === 1 ? "group" : "groups"}`],
    ["Events", NUMBERS.format(totals.events)],
    ["Input files", NUMBERS.format(totals.input_files)],
    ["CPU time", `${NUMBERS.format(totals.cpu_hours)} hours`],
    ["Memory per job", `${NUMBERS.format(totals.memory_mb)} MB, ${totals.cores} ${totals.cores === 1 ? "core" : "cores"}`],
    ["Sites", `${totals.sites.length}: ${totals.sites.join(", ")}`],
    ["Output files", `${NUMBERS.format(totals.output_files)}, ${NUMBERS.format(totals.merged_size_kb.total / 1e6)} GB`],
    ["Duration", `${NUMBERS.format(totals.estimated_wall_hours)} hours in free slots, until ${estimated_completion.slice(0, 16).replace("T", " ")} UTC`],
    ["Estimate from", estimate.source],
    ["Pilot first", pilot_first ? "yes: a small job measures, then the plan is made again" : "no"],
  ];
  if (totals.files_no_site_can_read) facts.push(["Files no site can read", String(totals.files_no_site_can_read)]);
  if (more_rounds) facts.push(["More rounds", "this is the first"]);
  const list = document.createElement("dl");
  list.className = "wms2-facts";
  for (const [name, value] of facts) {
    const [term, text] = [document.createElement("dt"), document.createElement("dd")];
    [term.textContent, text.textContent] = [name, value];
    list.append(term, text);
  }
  return list;
}

async function submit(variant, button) {
  button.disabled = true; // two clicks are one request; the key makes a repetition after a timeout safe
  variant.dataset.key ||= crypto.randomUUID();
  try {
    const made = await write(addresses.submit, documentOf(variant), { headers: { "Idempotency-Key": variant.dataset.key } });
    location.href = addresses.request.replace("NAME", encodeURIComponent(made.request_name));
  } catch (problem) {
    button.disabled = false;
    if (problem.status) delete variant.dataset.key; // refused: the next attempt is another request
    fail(problem);
  }
}

function documentOf(variant) {
  return JSON.parse(variant.querySelector("[data-text]").value);
}

function fail(problem) {
  if (!(problem instanceof Problem)) throw problem;
  toastProblem(problem);
}
