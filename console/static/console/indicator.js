// A small line at the top of the page that says whether it is up to date.
const TEXTS = {
  live: ["success", "bolt", "Live"],
  polling: ["info", "sync", "Updated every 5 s"],
  slow: ["warning", "hourglass_top", "WMS2 answers slowly. The page waits for it."],
  paused: ["neutral", "pause", "Paused"],
  down: ["danger", "cloud_off", "WMS2 does not answer. The page may be out of date; it retries by itself."],
  ended: ["warning", "logout", "The session has ended."],
};

let known = ""; // the state to return to
let slow = 0; // calls that wait

// Counts calls that take long: one more, or one less.
export function indicateSlow(more) {
  slow = Math.max(0, slow + (more ? 1 : -1));
  show(slow ? "slow" : known);
}

export function indicate(state) {
  known = state;
  show(state);
}

function show(state) {
  if (!state) return document.getElementById("wms2-indicator")?.remove();
  const [tone, icon, text] = TEXTS[state];
  const box = element();
  if (box.dataset.state === state) return;
  box.dataset.state = state;
  box.dataset.tone = tone;
  box.title = state === "live" ? "Changes appear without a reload." : "";
  const symbol = document.createElement("span");
  symbol.className = "material-symbols-outlined wms2-icon";
  symbol.setAttribute("aria-hidden", "true");
  symbol.textContent = icon;
  box.replaceChildren(symbol, text);
  if (state === "ended") {
    const login = document.createElement("a");
    login.href = `/admin/login/?next=${encodeURIComponent(location.pathname + location.search)}`;
    login.textContent = "Log in";
    box.append(" ", login);
  }
}

function element() {
  let box = document.getElementById("wms2-indicator");
  if (!box) {
    box = document.createElement("div");
    box.id = "wms2-indicator";
    box.className = "wms2-indicator";
    box.setAttribute("role", "status");
    document.getElementById("content")?.prepend(box);
  }
  return box;
}
