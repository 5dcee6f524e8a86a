// Short messages in a corner of the page. Errors stay until they are closed.
const SHOWN_MS = 6_000;

export function toast(text, { tone = "info", cure = "" } = {}) {
  const box = document.createElement("div");
  box.className = "wms2-toast";
  box.dataset.tone = tone;
  box.setAttribute("role", tone === "danger" ? "alert" : "status");
  const message = document.createElement("p");
  message.textContent = cure ? `${text}. ${cure}` : text;
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "Close";
  close.addEventListener("click", () => box.remove());
  box.append(message, close);
  corner().append(box);
  if (tone !== "danger") setTimeout(() => box.remove(), SHOWN_MS);
  return box;
}

// Shows a Problem (http.js) with its cure.
export function toastProblem(problem) {
  return toast(problem.message, { tone: "danger", cure: problem.cure ?? "" });
}

function corner() {
  let found = document.getElementById("wms2-toasts");
  if (!found) {
    found = document.createElement("div");
    found.id = "wms2-toasts";
    document.body.append(found);
  }
  return found;
}
