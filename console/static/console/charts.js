// Draws <canvas data-keep data-chart="ID"> from the JSON element ID: {kind, stacked, unit, labels, series}, each
// series {label, tone, data}. Colours are those of the tones; Chart.js is unfold's.
const charts = new Map(); // canvas → chart
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

export function drawCharts(root) {
  for (const [canvas, chart] of charts) {
    if (canvas.isConnected) continue;
    chart.destroy();
    charts.delete(canvas);
  }
  for (const canvas of root.querySelectorAll("canvas[data-chart]")) draw(canvas);
}

new MutationObserver(() => [...charts.keys()].forEach(draw)).observe(document.documentElement, {
  attributeFilter: ["class"], // the theme
});

function draw(canvas) {
  const text = document.getElementById(canvas.dataset.chart)?.textContent;
  if (!text || !window.Chart) return;
  const options = describe(JSON.parse(text), getComputedStyle(canvas));
  const chart = charts.get(canvas);
  if (!chart) {
    charts.set(canvas, new window.Chart(canvas, options));
  } else {
    Object.assign(chart, { data: options.data, options: options.options });
    chart.update("none");
  }
}

function describe({ kind, stacked, unit, labels, series }, style) {
  const colour = (name) => style.getPropertyValue(name).trim();
  const [text, grid] = [colour("--wms2-text"), colour("--wms2-line")];
  const axis = { stacked, border: { display: false }, grid: { color: grid }, ticks: { color: text, maxTicksLimit: 5 } };
  return {
    type: kind,
    data: {
      labels,
      datasets: series.map(({ label, tone, data }) => ({
        label,
        data,
        backgroundColor: colour(`--wms2-${tone}-fill`),
        borderColor: colour(`--wms2-${tone}-fill`),
        borderWidth: kind === "line" ? 2 : 0,
        borderRadius: 2,
        pointRadius: 0,
        pointHitRadius: 8,
        tension: 0.3,
      })),
    },
    options: {
      animation: calm.matches ? false : { duration: 300 },
      maintainAspectRatio: false,
      interaction: { mode: "index", intersect: false },
      scales: {
        x: { ...axis, grid: { display: false }, ticks: { color: text, maxTicksLimit: 8, maxRotation: 0 } },
        y: { ...axis, beginAtZero: true, ticks: { ...axis.ticks, callback: (value) => shorten(value) } },
      },
      plugins: {
        legend: { display: series.length > 1, position: "bottom", labels: { color: text, boxWidth: 10, boxHeight: 10 } },
        tooltip: { callbacks: { label: (item) => ` ${item.dataset.label}: ${shorten(item.parsed.y)} ${unit}` } },
      },
    },
  };
}

const NUMBERS = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });

function shorten(value) {
  return NUMBERS.format(value);
}
