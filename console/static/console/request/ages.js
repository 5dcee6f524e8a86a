// Fills <span data-since="…"> with how long ago that was, and keeps it right.
const UNITS = [["d", 86_400], ["h", 3_600], ["min", 60]];
const REFRESH_MS = 15_000;

export function startAges(root) {
  const show = () => root.querySelectorAll("[data-since]").forEach((one) => (one.textContent = `(${age(one.dataset.since)})`));
  show();
  root.addEventListener("wms2:updated", show);
  setInterval(() => document.hidden || show(), REFRESH_MS);
}

function age(since) {
  const seconds = Math.max(0, (Date.now() - Date.parse(since)) / 1000);
  for (const [unit, length] of UNITS) if (seconds >= 2 * length) return `${Math.floor(seconds / length)} ${unit}`;
  return `${Math.floor(seconds)} s`;
}
