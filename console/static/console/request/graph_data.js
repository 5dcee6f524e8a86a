// The data of the graph: rounds and groups from one request, nodes of the groups in view on demand.
import { readJson } from "../http.js";

const GROUPS_PER_CALL = 256;

const NO_NODES = { names: [], states: [], records: new Map(), places: [] };

export class GraphData {
  constructor(url) {
    this.url = url;
    this.etag = "";
    this.body = null;
    this.groups = []; // {key, round, index, x, y, status, …}
    this.nodes = new Map(); // key of the group → {names, states, records, places}
    this.loading = new Set();
    this.states = [];
    this.detailed = false; // whether causes and durations of all nodes are wanted
  }

  // Forgets nodes that were read without causes and durations, if these are wanted now.
  detail(wanted) {
    if (wanted && !this.detailed) this.nodes.clear();
    this.detailed = wanted;
  }

  // Reads the graph again. Returns whether it changed; nodes of groups that changed are forgotten.
  async refresh() {
    const found = await readJson(this.url, { etag: this.etag });
    if (!found) return false;
    const before = new Map(this.groups.map((group) => [group.key, fingerprint(group)]));
    this.etag = found.etag;
    this.body = found.body;
    const rounds = new Map(this.body.rounds.map((round) => [round.number, round]));
    this.groups = this.body.groups.map((row) => {
      const group = Object.fromEntries(this.body.columns.map((name, column) => [name, row[column]]));
      group.key = `${group.round}/${group.index}`;
      group.name = `mg_${String(group.index).padStart(6, "0")}`;
      group.band = rounds.get(group.round);
      group.total = group.jobs + 3; // landing, merge and cleanup
      return group;
    });
    for (const group of this.groups) if (before.get(group.key) !== fingerprint(group)) this.nodes.delete(group.key);
    this.grid = new Grid(this.groups);
    return true;
  }

  statusOf(group) {
    return this.body.statuses[group.status];
  }

  siteOf(group) {
    return this.body.sites[group.site] ?? "";
  }

  // Reads the nodes of these groups, a few at a time. Returns whether any were read.
  async load(groups) {
    const wanted = groups.filter((one) => one.band.on_disk && !this.nodes.has(one.key) && !this.loading.has(one.key));
    const round = wanted[0]?.round;
    const batch = wanted.filter((one) => one.round === round).slice(0, GROUPS_PER_CALL);
    if (!batch.length) return false;
    batch.forEach((one) => this.loading.add(one.key));
    try {
      const { body } = await readJson(`${this.url}/nodes?round=${round}&group=${batch.map((one) => one.index).join(",")}&records=${this.detailed ? "all" : "failed"}`);
      this.states = body.states;
      for (const found of body.groups) this.nodes.set(`${round}/${found.index}`, nodesOf(found, body));
    } catch (problem) {
      if (!isRefusal(problem)) return false; // the next frame asks again
      batch.forEach((one) => this.nodes.set(one.key, NO_NODES)); // the directory was removed
    } finally {
      batch.forEach((one) => this.loading.delete(one.key));
    }
    return true;
  }
}

function isRefusal({ status }) {
  return status >= 400 && status < 500;
}

// Records are few: those of failed nodes, unless all are wanted.
function nodesOf({ names, states, records }, { columns, places }) {
  const rows = records.map((row) => Object.fromEntries(columns.map((name, column) => [name, row[column]])));
  return { names, states, records: new Map(rows.map((row) => [row.node, row])), places: placesOf(names.length, places) };
}

// Positions of a group's nodes: those of the largest group, of which smaller ones lack the last jobs.
function placesOf(count, places) {
  return count === places.length ? places : [...places.slice(0, Math.max(count - 2, 0)), ...places.slice(-2)].slice(0, count);
}

function fingerprint(group) {
  return `${group.status} ${group.done} ${group.failed} ${group.site}`;
}

// Finds groups by position in constant time.
class Grid {
  constructor(groups) {
    this.size = Math.max(1, ...groups.map((one) => Math.max(one.band.tile_width, one.band.tile_height)));
    this.cells = new Map();
    for (const group of groups) {
      for (const key of this.keys(group.x, group.y, group.x + group.band.tile_width, group.y + group.band.tile_height)) {
        if (!this.cells.has(key)) this.cells.set(key, []);
        this.cells.get(key).push(group);
      }
    }
  }

  *keys(left, top, right, bottom) {
    for (let row = Math.floor(top / this.size); row <= Math.floor(bottom / this.size); row++) {
      for (let column = Math.floor(left / this.size); column <= Math.floor(right / this.size); column++) yield `${row},${column}`;
    }
  }

  at(x, y) {
    const [key] = this.keys(x, y, x, y);
    return (this.cells.get(key) ?? []).find(({ x: left, y: top, band }) => x >= left && x < left + band.tile_width && y >= top && y < top + band.tile_height);
  }

  within(left, top, right, bottom) {
    const found = new Set();
    for (const key of this.keys(left, top, right, bottom)) for (const group of this.cells.get(key) ?? []) found.add(group);
    return [...found];
  }
}
