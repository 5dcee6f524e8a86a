// Draws the graph on a canvas: camera, culling, level of detail. Positions are the server's; a node has an edge of
// four units. Groups are tiles with a state bar; from some zoom on their nodes are drawn.
const NODE = 4;
const NODES_FROM_PX = 3; // edge of a node from which nodes are drawn
const LABEL_FROM_PX = 56; // width of a tile from which it has a name
const NODE_LABEL_FROM_PX = 44;
const MARGIN = 12;
const MAX_SCALE = 24;
const GLIDE_MS = 220;
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

export class GraphView {
  constructor(canvas, data, colours) {
    Object.assign(this, { canvas, data, colours });
    this.context = canvas.getContext("2d", { alpha: false });
    this.scale = 1;
    this.x = this.y = 0; // the world position of the left upper corner
    this.selected = { group: "", node: "" };
    this.frame = 0;
    this.frames = 0; // drawn so far
    this.onVisible = () => {};
    this.covered = () => 0; // width of the canvas that the panel covers, on its right
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.ratio = ratio;
    this.textScale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; // larger on a 4k screen
    if (!this.touched && this.data.body) this.fit();
    this.draw();
  }

  get showsNodes() {
    return NODE * this.scale >= NODES_FROM_PX;
  }

  fitScale() {
    const { width, height } = this.data.body;
    return Math.min((this.width - 2 * MARGIN) / Math.max(width, 1), (this.height - 2 * MARGIN) / Math.max(height, 1), 8);
  }

  // Shows everything.
  fit() {
    const { width, height } = this.data.body;
    const scale = this.fitScale();
    this.glide(scale, (width - this.width / scale) / 2, (height - this.height / scale) / 2);
  }

  zoomTo(left, top, width, height) {
    this.touched = true;
    const free = this.width - this.covered();
    const scale = Math.min((free - 4 * MARGIN) / width, (this.height - 4 * MARGIN) / height, MAX_SCALE);
    this.glide(scale, left + width / 2 - free / scale / 2, top + height / 2 - this.height / scale / 2);
  }

  zoomBy(factor, px = this.width / 2, py = this.height / 2) {
    this.touched = true;
    cancelAnimationFrame(this.gliding);
    const at = this.world(px, py);
    this.scale = Math.min(MAX_SCALE, Math.max(this.fitScale() / 3, this.scale * factor));
    this.x = at.x - px / this.scale;
    this.y = at.y - py / this.scale;
    this.draw();
  }

  panBy(dx, dy) {
    this.touched = true;
    cancelAnimationFrame(this.gliding);
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
    this.draw();
  }

  // Moves to a view; the first one appears at once.
  glide(scale, x, y) {
    cancelAnimationFrame(this.gliding);
    const jumps = calm.matches || !this.shown;
    this.shown = true;
    const from = { scale: this.scale, x: this.x, y: this.y };
    const began = performance.now();
    const step = (now) => {
      const part = jumps ? 1 : Math.min(1, Math.max(0, now - began) / GLIDE_MS);
      const eased = 1 - (1 - part) ** 3;
      this.scale = from.scale * (scale / from.scale) ** eased;
      this.x = from.x + (x - from.x) * eased;
      this.y = from.y + (y - from.y) * eased;
      this.draw();
      if (part < 1) this.gliding = requestAnimationFrame(step);
    };
    step(began);
  }

  world(px, py) {
    return { x: this.x + px / this.scale, y: this.y + py / this.scale };
  }

  // Returns what is at a position of the canvas: {group, node}; node is a name, or empty.
  hit(px, py) {
    if (!this.data.grid) return null;
    const at = this.world(px, py);
    const group = this.data.grid.at(at.x, at.y);
    if (!group) return null;
    const found = this.data.nodes.get(group.key);
    if (!found || !this.showsNodes) return { group, node: "" };
    const [x, y] = [at.x - group.x, at.y - group.y];
    const number = found.places.findIndex(([left, top]) => x >= left && x < left + NODE && y >= top && y < top + NODE);
    return { group, node: found.names[number] ?? "" };
  }

  draw() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.frames += 1;
      this.paint();
    });
  }

  paint() {
    const { context: c, data, colours, scale } = this;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.fillStyle = colours.surface;
    c.fillRect(0, 0, this.width, this.height);
    if (!data.body) return;
    c.translate(-this.x * scale, -this.y * scale);
    this.paintStem(data.body.rounds);
    for (const round of data.body.rounds) this.paintRound(round);
    const end = this.world(this.width, this.height);
    const visible = data.grid.within(this.x, this.y, end.x, end.y);
    for (const group of visible) this.paintGroup(group);
    if (this.showsNodes) this.onVisible(visible);
  }

  // The line from the request to its rounds.
  paintStem(rounds) {
    if (!rounds.length) return;
    const { context: c, colours, scale } = this;
    const middle = ({ y, height }) => (y + height / 2) * scale;
    c.strokeStyle = c.fillStyle = colours.quiet;
    c.lineWidth = Math.max(1, scale / 3);
    const x = (rounds[0].x / 3) * scale;
    c.beginPath();
    c.moveTo(x, 0);
    c.lineTo(x, middle(rounds.at(-1)));
    for (const round of rounds) {
      c.moveTo(x, middle(round));
      c.lineTo(round.x * scale, middle(round));
    }
    c.stroke();
    c.beginPath();
    c.arc(x, 0, Math.max(3, 2 * scale), 0, 2 * Math.PI);
    c.fill();
  }

  paintRound({ number, kind, x, y, width, height, groups, nodes, dag_status: status }) {
    const { context: c, colours, scale } = this;
    c.strokeStyle = colours.line;
    c.lineWidth = 1;
    c.strokeRect(x * scale + 0.5, y * scale + 0.5, width * scale, height * scale);
    const size = Math.min(13 * this.textScale, 8 * scale);
    if (size < 7) return;
    c.fillStyle = colours.quiet;
    c.font = `${size}px system-ui, sans-serif`;
    c.textBaseline = "middle";
    const short = `Round ${number} · ${kind}`;
    const long = `${short} · ${counted(groups, "group")} · ${counted(nodes, "node")}${status ? ` · DAG ${status}` : ""}`;
    const room = Math.max(width - 6, 0) * scale;
    c.fillText(c.measureText(long).width <= room ? long : short, (x + 3) * scale, (y + 6) * scale, room);
  }

  paintGroup(group) {
    const { context: c, colours, scale } = this;
    const [x, y] = [group.x * scale, group.y * scale];
    const [width, height] = [group.band.tile_width * scale, group.band.tile_height * scale];
    const status = this.data.statusOf(group);
    const nodes = this.showsNodes ? this.data.nodes.get(group.key) : null;
    if (width < 14) {
      c.fillStyle = colours.ofGroup(group, status);
      c.fillRect(x, y, Math.max(width, 1), Math.max(height, 1));
    } else {
      c.fillStyle = colours.line;
      c.fillRect(x, y, width, height);
      if (nodes?.names.length) this.paintNodes(group, nodes);
      else this.paintShares(group, status, x, y, width, height);
      this.paintHeader(group, status, x, y, width);
    }
    if (this.selected.group === group.key) {
      c.strokeStyle = colours.text;
      c.lineWidth = 2;
      c.strokeRect(x - 1, y - 1, width + 2, height + 2);
    }
  }

  paintHeader(group, status, x, y, width) {
    const { context: c, colours, scale } = this;
    c.fillStyle = colours.ofGroup(group, status);
    c.fillRect(x, y, width, Math.max(2, 1.2 * scale));
    if (width < LABEL_FROM_PX) return;
    const size = Math.min(12 * this.textScale, 4 * scale);
    if (size < 7) return;
    c.fillStyle = colours.text;
    c.font = `${size}px system-ui, sans-serif`;
    c.textBaseline = "middle";
    const site = this.data.siteOf(group);
    c.fillText(`${group.index} · ${status}${site ? ` · ${site}` : ""}`, x + 2 * scale, y + 5 * scale, width - 4 * scale);
  }

  // A tile without nodes: its area is divided like its nodes: done, running, idle, held, failed, and the rest.
  paintShares(group, status, x, y, width, height) {
    const { context: c, colours, scale } = this;
    const labelled = width >= LABEL_FROM_PX && 4 * scale >= 7;
    const top = y + (labelled ? 9 * scale : Math.max(2, 1.2 * scale) + 1);
    const inner = Math.max(height - (top - y), 1);
    if (colours.mode !== "state") {
      c.fillStyle = colours.ofGroup(group, status);
      c.fillRect(x, top, width, inner);
      return;
    }
    let left = x;
    for (const [count, tone] of [[group.done, "success"], [group.running, "primary"], [group.idle, "info"], [group.held, "warning"], [group.failed, "danger"]]) {
      const part = (width * count) / group.total;
      c.fillStyle = colours.tones[tone];
      c.fillRect(left, top, part, inner);
      left += part;
    }
  }

  paintNodes(group, { names, states, records, places }) {
    const { context: c, colours, data, scale } = this;
    const edge = Math.max(NODE * scale * 0.82, 1);
    const labelled = NODE * scale >= NODE_LABEL_FROM_PX;
    const selected = this.selected.group === group.key ? names.indexOf(this.selected.node) : -1;
    let colour = ""; // of the node before: neighbours often have the same
    for (let number = 0; number < names.length; number++) {
      const state = data.states[states[number]];
      const [x, y] = [(group.x + places[number][0]) * scale, (group.y + places[number][1]) * scale];
      const own = colours.ofNode(records.get(number), group, state);
      if (own !== colour) c.fillStyle = colour = own;
      c.fillRect(x, y, edge, edge);
      if (edge >= 7 && (state === "error" || state === "futile")) this.paintMark(state, x, y, edge);
      if (labelled) {
        this.paintLabel(names[number], describeExit(records.get(number)), x, y, edge);
        colour = "";
      }
      if (number === selected) {
        c.strokeStyle = colours.text;
        c.lineWidth = 2;
        c.strokeRect(x - 1, y - 1, edge + 2, edge + 2);
      }
    }
  }

  // Failed and skipped nodes are known by a cross and a stroke, not by colour alone.
  paintMark(state, x, y, edge) {
    const { context: c } = this;
    const [near, far] = [edge * 0.25, edge * 0.75];
    c.strokeStyle = "#fff";
    c.lineWidth = Math.max(1, edge / 12);
    c.beginPath();
    c.moveTo(x + near, y + near);
    c.lineTo(x + far, y + far);
    if (state === "error") {
      c.moveTo(x + far, y + near);
      c.lineTo(x + near, y + far);
    }
    c.stroke();
  }

  paintLabel(name, exit, x, y, edge) {
    const { context: c } = this;
    c.fillStyle = "#fff";
    c.font = `${Math.min(12 * this.textScale, edge / 6)}px system-ui, sans-serif`;
    c.textBaseline = "bottom";
    c.fillText(exit ? `${name} (${exit})` : name, x + 3, y + edge - 3, edge - 6);
  }
}

function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

function describeExit(record) {
  return record?.exit_code > 0 ? record.exit_code : "";
}
