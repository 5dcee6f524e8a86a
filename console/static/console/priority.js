// Priorities in the admission queue: a changed number shows its effect, asks for a reason and is saved. Arrow keys change
// it, Enter goes on, Escape takes it back.
import { Problem, write } from "./http.js";
import { toast, toastProblem } from "./toasts.js";

const PAUSE_MS = 300;
const FIELD = "[data-priority]";

export function startPriority() {
  const form = document.getElementById("priority-form");
  if (form) new PriorityForm(form);
}

class PriorityForm {
  constructor(form) {
    this.form = form;
    [this.title, this.effects, this.reason] = ["[data-title]", "[data-effects]", "[name=reason]"].map((one) => form.querySelector(one));
    document.addEventListener("input", ({ target }) => target.matches(FIELD) && this.edit(target));
    document.addEventListener("keydown", (event) => this.onKey(event));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.save();
    });
    form.querySelector("[data-cancel]").addEventListener("click", () => this.cancel());
  }

  edit(field) {
    if (this.field !== field) {
      if (this.field) this.field.value = this.field.defaultValue;
      this.field = field;
      this.version = field.dataset.version;
      this.reason.value = "";
    }
    if (field.value === field.defaultValue) return this.cancel();
    this.title.textContent = `Priority of ${field.dataset.priority}: ${field.defaultValue} → ${field.value || "?"}`;
    this.effects.textContent = "";
    this.form.hidden = false;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.preview(), PAUSE_MS);
  }

  onKey(event) {
    const editing = this.field && (event.target === this.field || this.form.contains(event.target));
    if (!editing || this.form.hidden) return;
    if (event.key === "Escape") this.cancel();
    else if (event.key === "Enter" && event.target === this.field) this.reason.focus();
    else return;
    event.preventDefault();
  }

  cancel() {
    clearTimeout(this.timer);
    this.field.value = this.field.defaultValue;
    this.close();
  }

  close() {
    if (this.form.contains(document.activeElement)) this.field.focus();
    this.form.hidden = true;
    this.field = null;
  }

  async preview() {
    const asked = this.field.value;
    try {
      const { now } = await this.change({ dry_run: true, reason: "preview" });
      if (this.field?.value === asked) this.effects.textContent = now.join("; ");
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (this.field?.value === asked) this.effects.textContent = `${problem.message}. ${problem.cure}`;
    }
  }

  async save() {
    const { field, version } = this;
    clearTimeout(this.timer);
    try {
      await this.change({ reason: this.reason.value }, { "If-Match": `"${version}"` });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.version = field.dataset.version; // after a colleague's change the next confirmation is about it
      toastProblem(problem);
      return;
    }
    field.defaultValue = field.value;
    toast(`The priority of ${field.dataset.priority} is ${field.value}.`, { tone: "success" });
    this.close();
  }

  change(values, headers = {}) {
    const url = this.form.dataset.url.replace("NAME", encodeURIComponent(this.field.dataset.priority));
    return write(url, { priority: Number(this.field.value), ...values }, { method: "PATCH", headers });
  }
}
