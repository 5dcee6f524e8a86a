// The keyboard palette: Ctrl-K or / opens it, arrows choose, Enter opens, Escape closes. A combobox with a list of
// results, as screen readers know it.
import { Problem, readJson } from "./http.js";

const PAUSE_MS = 120;
let dialog, input, list, status;
let asked = 0;
let pending = false; // results of what is typed are on their way
let enter = false; // Enter was pressed before they arrived

export function startPalette() {
  const opener = document.querySelector("[data-palette]");
  const address = opener?.dataset.palette;
  if (!address) return;
  document.addEventListener("keydown", (event) => {
    const field = event.target.closest?.("input, textarea, select, [contenteditable]");
    const closed = dialog && !dialog.open && dialog.contains(field); // it keeps the focus for a moment
    const typing = field && !closed;
    const wanted = ((event.ctrlKey || event.metaKey) && event.key === "k") || (event.key === "/" && !typing);
    if (!wanted) return;
    event.preventDefault();
    open(address);
  });
  opener.addEventListener("click", () => open(address));
}

function open(address) {
  if (!dialog) build(address);
  if (dialog.open) return;
  dialog.showModal();
  input.value = "";
  list.replaceChildren();
  ask(address);
}

function build(address) {
  dialog = document.createElement("dialog");
  dialog.className = "wms2-palette";
  dialog.setAttribute("aria-label", "Search");
  dialog.innerHTML = `
    <input class="wms2-input" type="text" role="combobox" aria-expanded="true" aria-controls="wms2-hits"
      aria-autocomplete="list" aria-label="Search requests, sites, datasets, pages and actions"
      placeholder="Name of a request, site, dataset or page; or an action: stop NAME" autocomplete="off" spellcheck="false">
    <ul id="wms2-hits" role="listbox" aria-label="Results"></ul>
    <p class="wms2-quiet" role="status"></p>`;
  document.body.append(dialog);
  [input, list, status] = [dialog.querySelector("input"), dialog.querySelector("ul"), dialog.querySelector("p")];
  let timer;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    asked += 1; // what was asked before is out of date
    [pending, enter] = [true, false];
    timer = setTimeout(() => ask(address), PAUSE_MS);
  });
  input.addEventListener("keydown", onKey);
  list.addEventListener("click", (event) => follow(event.target.closest("li")));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}

function onKey(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    const items = [...list.children];
    if (!items.length) return;
    const now = items.findIndex((one) => one.ariaSelected === "true");
    choose(items[(now + step + items.length) % items.length]);
  } else if (event.key === "Enter") {
    event.preventDefault();
    if (pending) enter = true;
    else follow(list.querySelector('[aria-selected="true"]'));
  }
}

function choose(item) {
  for (const one of list.children) one.ariaSelected = String(one === item);
  input.setAttribute("aria-activedescendant", item?.id ?? "");
  item?.scrollIntoView({ block: "nearest" });
}

function follow(item) {
  if (item) location.href = item.dataset.url;
}

async function ask(address) {
  const turn = ++asked;
  const url = new URL(address, location.href);
  url.searchParams.set("q", input.value);
  try {
    const { body } = await readJson(url);
    if (turn === asked) show(body.hits);
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    status.textContent = `${problem.message}. ${problem.cure}`;
  }
}

function show(hits) {
  list.replaceChildren(...hits.map(render));
  choose(list.firstElementChild);
  pending = false;
  if (enter) follow(list.firstElementChild);
  const found = hits.length === 1 ? "1 result" : `${hits.length} results`;
  status.textContent = hits.length ? `${found}. ↑ ↓ to choose, Enter to open.` : "Nothing matches.";
}

function render({ kind, text, hint, url }, number) {
  const item = document.createElement("li");
  item.id = `wms2-hit-${number}`;
  item.role = "option";
  item.dataset.url = url;
  for (const [name, value] of [["kind", kind], ["text", text], ["hint", hint]]) {
    const part = document.createElement("span");
    part.className = `wms2-hit-${name}`;
    part.textContent = value;
    item.append(part);
  }
  return item;
}
