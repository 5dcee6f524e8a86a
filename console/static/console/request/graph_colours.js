// Colours of groups and nodes by state, site, cause of failure or duration, and their legend.
const NODE_TONES = {
  not_ready: ["neutral", "waiting"],
  ready: ["info", "ready"],
  prerun: ["info", "ready"],
  submitted: ["primary", "in the queue"],
  postrun: ["primary", "in the queue"],
  done: ["success", "done"],
  error: ["danger", "failed"],
  futile: ["warning", "skipped"],
};
const GROUP_TONES = { planned: "neutral", done: "primary", collected: "success", failed: "danger" };
const GOLDEN_ANGLE = 137.5; // neighbouring numbers get very different hues

export class Colours {
  constructor(element) {
    this.element = element;
    this.mode = "state";
    this.refresh();
  }

  // Reads the colours of the theme.
  refresh() {
    const style = getComputedStyle(this.element);
    const read = (name) => style.getPropertyValue(`--wms2-${name}`).trim();
    this.tones = Object.fromEntries(["success", "danger", "warning", "info", "primary", "neutral"].map((tone) => [tone, read(`${tone}-fill`)]));
    this.text = read("strong");
    this.quiet = read("quiet");
    this.line = read("line");
    this.surface = resolve(this.element, "--wms2-surface");
    this.dark = document.documentElement.classList.contains("dark");
  }

  scaleTo(data) {
    const known = data.groups.map((group) => group.seconds).filter((seconds) => seconds > 0);
    this.longest = Math.max(1, ...known);
  }

  ofGroup(group, status) {
    if (this.mode === "site") return this.hue(group.site);
    if (this.mode === "cause") return this.hue(group.cause);
    if (this.mode === "duration") return this.shade(group.seconds);
    return this.tones[status === "planned" && group.done > 0 ? "primary" : GROUP_TONES[status]];
  }

  ofNode(record, group, state) {
    if (this.mode === "site") return state === "not_ready" ? this.tones.neutral : this.hue(group.site);
    if (this.mode === "cause") return this.hue(record?.cause ?? -1);
    if (this.mode === "duration") return this.shade(record?.seconds ?? -1);
    return this.tones[NODE_TONES[state][0]];
  }

  hue(number) {
    return number < 0 ? this.tones.neutral : `hsl(${(number * GOLDEN_ANGLE + 210) % 360} 65% ${this.dark ? 60 : 48}%)`;
  }

  shade(seconds) {
    if (seconds < 0) return this.tones.neutral;
    const part = Math.log1p(seconds) / Math.log1p(this.longest);
    return `hsl(${220 - 190 * Math.min(part, 1)} 75% ${this.dark ? 60 : 48}%)`;
  }

  legend(data) {
    const { sites, causes } = data.body;
    if (this.mode === "site") return [...sites.map((site, number) => [this.hue(number), site]), [this.tones.neutral, "not landed"]];
    if (this.mode === "cause") return [...causes.map((cause, number) => [this.hue(number), cause.label]), [this.tones.neutral, "no failure"]];
    if (this.mode === "duration") {
      return [[this.shade(0), "short"], [this.shade(this.longest), `${Math.round(this.longest / 60)} min`], [this.tones.neutral, "not measured"]];
    }
    const shown = new Map(Object.values(NODE_TONES).map(([tone, label]) => [label, this.tones[tone]]));
    return [...shown].map(([label, colour]) => [colour, label]);
  }
}

export function describeState(state) {
  return NODE_TONES[state]?.[1] ?? state;
}

export function toneOfState(state) {
  return NODE_TONES[state]?.[0] ?? "neutral";
}

function resolve(element, name) {
  return getComputedStyle(element).getPropertyValue(name).trim() || "#fff";
}
