// The graph of a request: puts data, drawing, input, panel and the table of groups together.
import { subscribe } from "../live.js";
import { morphTo } from "../morph.js";
import { make } from "./dom.js";
import { Colours } from "./graph_colours.js";
import { handleInput } from "./graph_input.js";
import { GraphPanel } from "./graph_panel.js";
import { GraphView } from "./graph_view.js";

const REFRESH_MS = 1_000; // at most one reading a second, however many changes there are
const RETRY_MS = 5_000;
const READERS = 2; // calls for nodes at a time
const TABLE_ROWS = 500;

export async function startGraph(root, { data, firstReading, topic }) {
  const canvas = root.querySelector("#graph-canvas");
  const colours = new Colours(canvas);
  const view = new GraphView(canvas, data, colours);
  const graph = new Graph(root, { data, colours, view });
  root.graph = graph; // for tests and benchmarks
  subscribe([topic], () => graph.refreshSoon());
  await graph.refresh(firstReading);
}

class Graph {
  constructor(root, { data, colours, view }) {
    Object.assign(this, { root, data, colours, view });
    this.panel = new GraphPanel(root.querySelector("#graph-panel"), {
      dags: root.dataset.dags,
      onNode: (group, name) => this.openNode(group, name),
      onClose: () => this.onClose(),
    });
    this.failure = -1;
    this.reading = 0; // calls for nodes under way
    view.onVisible = (groups) => this.loadSoon(groups);
    view.covered = () => this.panel.covers(view.canvas);
    handleInput(view.canvas, view, { onPick: (found) => this.pick(found), onKey: (key) => this.onKey(key) });
    root.querySelector(".wms2-graph-tools").addEventListener("click", ({ target }) => this.onTool(target.closest("[data-graph-do]")));
    root.querySelector("#graph-mode").addEventListener("change", ({ target }) => this.colourBy(target.value));
    const table = root.querySelector("#graph-groups");
    table.addEventListener("toggle", () => this.showTable());
    table.addEventListener("click", ({ target }) => this.onRow(target.closest("[data-open]")));
    new MutationObserver(() => this.onTheme()).observe(document.documentElement, { attributeFilter: ["class"] });
  }

  async refresh(reading = null) {
    if (this.refreshing) return this.refreshSoon();
    this.refreshing = true;
    try {
      if (!(await (reading ?? this.data.refresh()))) return;
    } catch (problem) {
      this.summarise(problem.message);
      return this.refreshSoon(RETRY_MS);
    } finally {
      this.refreshing = false;
    }
    const { rounds, nodes } = this.data.body;
    this.colours.scaleTo(this.data);
    const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
    this.summarise(
      rounds.length
        ? `${count(rounds.length, "round")}, ${count(this.data.groups.length, "group")}, ${count(nodes, "node")}; click the graph to zoom with the wheel`
        : "The graph appears when the work is planned",
    );
    this.showLegend();
    if (this.view.touched) this.view.draw();
    else this.view.fit();
    this.showTable();
    this.refreshPanel();
    performance.mark("wms2-graph-ready");
  }

  refreshSoon(delayMs = REFRESH_MS) {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      if (!document.hidden) this.refresh();
    }, delayMs);
  }

  summarise(text) {
    this.root.querySelector("#graph-summary").textContent = text;
  }

  loadSoon(groups) {
    const missing = groups.filter((group) => group.band.on_disk && !this.data.nodes.has(group.key));
    if (!missing.length) performance.mark("wms2-nodes-ready");
    while (this.reading < READERS && missing.some((group) => !this.data.loading.has(group.key))) {
      this.reading += 1;
      this.data.load(missing).then((changed) => {
        this.reading -= 1;
        if (!changed) return;
        this.view.draw(); // which asks for the next ones in view
        this.refreshPanel();
      });
    }
  }

  groupOf(key) {
    return this.data.groups.find((group) => group.key === key);
  }

  select(group, node) {
    this.view.selected = { group, node };
    this.view.draw();
  }

  onClose() {
    this.select("", "");
    if (document.activeElement.matches(":focus-visible")) this.view.canvas.focus(); // closed by keyboard
  }

  pick(found) {
    if (!found) return this.panel.element.hidden || this.panel.close();
    return found.node ? this.openNode(found.group, found.node) : this.openGroup(found.group);
  }

  openGroup(group) {
    this.select(group.key, "");
    this.panel.showGroup(group, this.data);
    this.view.zoomTo(group.x, group.y, group.band.tile_width, group.band.tile_height);
    if (!this.data.nodes.has(group.key)) this.data.load([group]).then(() => this.refreshPanel());
  }

  openNode(group, name) {
    this.select(group.key, name);
    this.panel.showNode(group, name);
  }

  // Shows the newest state of what is open, without moving anything.
  refreshPanel() {
    const { group: key, node } = this.view.selected;
    const group = key && this.groupOf(key);
    if (!group || this.panel.element.hidden) return;
    if (!node) return this.panel.showGroup(group, this.data);
    const state = `${group.done} ${group.failed} ${group.status}`;
    if (this.panelState !== `${key} ${node} ${state}`) this.panel.showNode(group, node, { quiet: true });
    this.panelState = `${key} ${node} ${state}`;
  }

  nextFailure() {
    const failed = this.data.groups.filter((group) => group.failed > 0 || this.data.statusOf(group) === "failed");
    if (!failed.length) return this.summarise("No group has failed");
    this.failure = (this.failure + 1) % failed.length;
    return this.openGroup(failed[this.failure]);
  }

  onTool(button) {
    const actions = { in: () => this.view.zoomBy(1.5), out: () => this.view.zoomBy(1 / 1.5), fit: () => this.view.fit(), failed: () => this.nextFailure() };
    actions[button?.dataset.graphDo]?.();
  }

  onRow(button) {
    const group = button && this.groupOf(button.dataset.open);
    if (group) this.openGroup(group);
  }

  onKey(key) {
    if (key === "n") this.nextFailure();
    else if (key === "Escape" && !this.panel.element.hidden) this.panel.close();
    else return false;
    return true;
  }

  onTheme() {
    this.colours.refresh();
    if (this.data.body) this.showLegend();
    this.view.draw();
  }

  colourBy(mode) {
    this.colours.mode = mode;
    this.data.detail(mode === "cause" || mode === "duration");
    this.showLegend();
    this.view.draw();
  }

  showLegend() {
    const entries = this.colours.legend(this.data).map(([colour, label]) => {
      const dot = make("span", { class: "wms2-dot", "aria-hidden": "true" });
      dot.style.background = colour;
      return make("li", {}, dot, label);
    });
    this.root.querySelector("#graph-legend").replaceChildren(...entries);
  }

  showTable() {
    const details = this.root.querySelector("#graph-groups");
    if (!details.open) return;
    const rows = this.data.groups.slice(0, TABLE_ROWS).map((group) => {
      const cell = (label, text, number) => make("td", { "data-label": label, class: number ? "wms2-number" : null }, String(text));
      const open = make("button", { type: "button", class: "wms2-link", "aria-label": `Open group ${group.index} of round ${group.round}`, "data-open": group.key }, "Open");
      return make(
        "tr",
        { "data-key": group.key },
        cell("group", `${group.round}/${group.index}`),
        cell("status", this.data.statusOf(group)),
        cell("site", this.data.siteOf(group) || "–"),
        cell("nodes done", `${group.done} of ${group.total}`, true),
        cell("failed", group.failed, true),
        make("td", {}, open),
      );
    });
    const more = this.data.groups.length - rows.length;
    if (more > 0) rows.push(make("tr", {}, make("td", { colspan: "6" }, `${more} more groups are in the list of merge groups.`)));
    morphTo(details.querySelector("tbody"), ...rows);
  }
}
