// Checks the document and the mask of a new template while they are typed, and takes dropped files.
import { write } from "../console/http.js";

const PAUSE_MS = 700;
const form = document.getElementById("template-form");
const text = document.getElementById("id_document");
const mask = document.getElementById("id_mask");
const examples = document.getElementById("mask-examples");
const shown = document.getElementById("template-check");
const masked = document.getElementById("mask-check");
let timer = 0;
let asked = 0;

function paragraph(words, tone, strong = "") {
  const made = document.createElement("p");
  made.className = "wms2-problem";
  made.dataset.tone = tone;
  if (strong) {
    const head = document.createElement("strong");
    head.textContent = `${strong} `;
    made.append(head);
  }
  made.append(words);
  return made;
}

function show(found) {
  const problems = found.problems.map((one) =>
    paragraph(`${one.message} ${one.cure}`, "danger", one.line ? `line ${one.line}, column ${one.column}` : ""));
  const sound = text.value.trim() ? [paragraph(`No problems. Steps: ${found.steps.join(", ")}`, "success")] : [];
  shown.replaceChildren(...(problems.length ? problems : sound));
  const tried = found.examples.map((one) =>
    paragraph(one.name, one.matches ? "success" : "neutral", one.matches ? "matches" : "does not match"));
  if (found.mask_problem) tried.unshift(paragraph(found.mask_problem, "danger"));
  if (found.matches_everything) tried.unshift(paragraph("The mask matches every dataset.", "warning"));
  masked.replaceChildren(...tried);
}

async function check() {
  const number = ++asked;
  const names = examples.value.split("\n").map((one) => one.trim()).filter(Boolean).slice(0, 100);
  const body = { document: text.value, mask: mask.value, examples: names };
  try {
    const found = await write(shown.dataset.url, body);
    if (number === asked) show(found);
  } catch (problem) {
    if (number === asked) shown.replaceChildren(paragraph(problem.message, "danger"));
  }
}

function later() {
  clearTimeout(timer);
  timer = setTimeout(check, PAUSE_MS);
}

if (form && text) {
  for (const field of [text, mask, examples]) field.addEventListener("input", later);
  text.addEventListener("dragover", (event) => {
    event.preventDefault();
    text.dataset.drop = "";
  });
  text.addEventListener("dragleave", () => delete text.dataset.drop);
  text.addEventListener("drop", async (event) => {
    event.preventDefault();
    delete text.dataset.drop;
    const file = event.dataTransfer.files[0];
    if (file) {
      text.value = await file.text();
      check();
    }
  });
}
