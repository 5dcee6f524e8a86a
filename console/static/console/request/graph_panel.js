// The panel beside the graph: a group with its nodes, or a node with its attempts, resources, ids and log.
import { readJson } from "../http.js";
import { morphTo } from "../morph.js";
import { facts, make } from "./dom.js";
import { describeState, toneOfState } from "./graph_colours.js";

const LOG_LINES = 200;
const SHOWN_NODES = 200;

export class GraphPanel {
  constructor(element, { dags, onNode, onClose }) {
    Object.assign(this, { element, dags, onNode, onClose });
    this.turn = 0; // of what is shown: an answer for an earlier one is dropped
    this.content = make("div", { onclick: ({ target }) => this.onClick(target.closest("[data-node]")) });
    element.append(make("button", { type: "button", class: "wms2-button close", onclick: () => this.close() }, "Close"), this.content);
  }

  close() {
    this.turn += 1;
    this.element.hidden = true;
    this.onClose();
  }

  onClick(button) {
    if (button) this.onNode(this.group, button.dataset.node);
  }

  // Shows the newest content of a group or node in place, so that focus, scroll position and open logs survive.
  show(key, ...children) {
    const focused = this.content.contains(document.activeElement);
    morphTo(this.content, make("div", { "data-key": key }, ...children));
    this.element.hidden = false;
    if (focused && !this.content.contains(document.activeElement)) this.element.focus();
  }

  // Returns the width of the canvas that the panel covers: none on a phone, where it is below.
  covers(canvas) {
    const [mine, other] = [this.element.getBoundingClientRect(), canvas.getBoundingClientRect()];
    return this.element.hidden || mine.top >= other.bottom ? 0 : Math.max(0, other.right - mine.left);
  }

  showGroup(group, data) {
    const nodes = data.nodes.get(group.key);
    this.turn += 1;
    this.group = group;
    this.show(
      group.key,
      make("h3", {}, `Group ${group.index} of round ${group.round}`),
      facts([
        ["Status", data.statusOf(group)],
        ["Site", data.siteOf(group) || "not landed"],
        ["Nodes", `${group.done} of ${group.total} done, ${group.running} running, ${group.idle} idle, ${group.held} held, ${group.failed} failed`],
        ["Mean wall time", group.seconds >= 0 ? `${Math.round(group.seconds / 60)} min per job` : ""],
      ]),
      this.nodesOf(group, nodes, data),
    );
  }

  nodesOf(group, nodes, data) {
    const note = (text) => make("p", { class: "wms2-quiet" }, text);
    if (!group.band.on_disk) return note("Nodes and logs were removed with the submit directory, or are not written yet.");
    if (!nodes) return note("Reading the nodes…");
    return nodes.names.length ? this.nodeList(group, nodes, data) : note("The group has not been written yet.");
  }

  nodeList(group, { names, states }, data) {
    const order = [...states.keys()].sort((a, b) => rank(data.states[states[a]]) - rank(data.states[states[b]]) || a - b);
    const buttons = order.slice(0, SHOWN_NODES).map((number) => {
      const state = data.states[states[number]];
      const label = `${names[number]}: ${describeState(state)}`;
      return make("button", { type: "button", "data-tone": toneOfState(state), title: label, "aria-label": label, "data-node": names[number], "data-key": names[number] }, names[number]);
    });
    const more = order.length - buttons.length;
    return make("div", { class: "nodes" }, ...buttons, more > 0 ? make("span", { class: "wms2-quiet" }, `and ${more} more`) : null);
  }

  async showNode(group, name, { quiet = false } = {}) {
    const turn = ++this.turn;
    const key = `${group.key}/${name}`;
    const show = (...children) => turn === this.turn && this.show(key, make("h3", {}, `${group.name}/${name}`), ...children);
    if (!quiet) show(make("div", { class: "wms2-skeleton", style: "height:8rem" }));
    const base = `${this.dags}/${group.band.dag}`;
    try {
      const [{ body: node }, { body: logs }] = await Promise.all([
        readJson(`${base}/nodes/${group.name}/${name}`),
        readJson(`${base}/logs?group=${group.name}&node=${name}&tail=${LOG_LINES}`),
      ]);
      show(describe(node), ...node.attempts.toReversed().map(attempt), ...logsOf(logs));
    } catch (problem) {
      show(make("p", {}, problem.message), make("p", { class: "wms2-quiet" }, problem.cure));
    }
  }
}

function rank(state) {
  const order = ["error", "submitted", "postrun", "prerun", "ready", "futile", "not_ready", "done"];
  return order.indexOf(state);
}

function describe(node) {
  const { asked } = node;
  const used = node.attempts.at(-1);
  return facts([
    ["State", describeState(node.status)],
    ["Site", node.site || "not landed"],
    ["Memory", `${asked.memory_mb.toLocaleString("en")} MB asked${used?.memory_mb ? `, ${used.memory_mb.toLocaleString("en")} MB used` : ""}`],
    ["Wall time", `${asked.wall_minutes} min allowed${used ? `, ${(used.wall_time_sec / 60).toFixed(1)} min used` : ""}`],
    ["Cores", `${asked.cpus} asked${used?.wall_time_sec ? `, ${(used.cpu_time_sec / used.wall_time_sec).toFixed(2)} used` : ""}`],
    ["Disk", `${Math.round(asked.disk_kb / 1000).toLocaleString("en")} MB asked`],
    ["HTCondor jobs", node.job_ids.join(", ") || "none yet"],
  ]);
}

function attempt(one) {
  return make(
    "section",
    {},
    make("b", {}, `Attempt ${one.attempt + 1}: ${one.category} ${one.exit_code}`),
    facts([
      ["Ended", `${one.ended_at} at ${one.site || "no site"}`],
      ["Job", one.job_id],
      ["Message", one.message],
      ["Decision", [one.action, one.reason].filter((part) => part && part !== "none").join(": ")],
      ["Memory", one.memory_mb ? `${one.memory_mb} MB of ${one.memory_asked_mb} MB` : ""],
    ]),
    one.log_tail ? log(`Log of attempt ${one.attempt + 1}`, one.log_tail) : null,
  );
}

function logsOf({ tails }) {
  const names = { out: "Standard output, last lines", err: "Standard error, last lines" };
  const found = Object.entries(tails).filter(([, text]) => text);
  if (!found.length) return [make("p", { class: "wms2-quiet" }, "There is no log yet.")];
  return found.map(([kind, text]) => log(names[kind] ?? kind, text, true));
}

function log(title, text, open = false) {
  return make("details", open ? { open: "" } : {}, make("summary", { class: "wms2-link" }, title), make("pre", { class: "wms2-log", tabindex: "0" }, text));
}
