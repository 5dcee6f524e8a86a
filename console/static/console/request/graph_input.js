// Pointer, wheel and keyboard of the graph. The wheel zooms while the graph has the focus or Ctrl is pressed;
// otherwise it scrolls the page.
const WHEEL_STEP = 0.0015;
const KEY_PAN_PX = 60;
const KEY_ZOOM = 1.3;
const CLICK_PX = 5;

export function handleInput(canvas, view, { onPick, onKey }) {
  const pointers = new Map();
  let moved = 0;

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    moved = pointers.size > 1 ? CLICK_PX : 0;
  });

  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    pointers.set(event.pointerId, now);
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (moved < CLICK_PX) return;
    canvas.dataset.dragging = "";
    if (other) {
      const factor = distance(now, other) / Math.max(distance(before, other), 1);
      view.zoomBy(factor, (now.x + other.x) / 2, (now.y + other.y) / 2);
    }
    view.panBy((now.x - before.x) / pointers.size, (now.y - before.y) / pointers.size);
  });

  const release = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    delete canvas.dataset.dragging;
    if (event.type === "pointerup" && moved < CLICK_PX) onPick(view.hit(at(event).x, at(event).y));
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);

  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      view.zoomBy(Math.exp(-event.deltaY * lines * WHEEL_STEP * (event.ctrlKey ? 4 : 1)), at(event).x, at(event).y);
    },
    { passive: false },
  );

  canvas.addEventListener("dblclick", (event) => view.zoomBy(2, at(event).x, at(event).y));

  const keys = {
    ArrowLeft: () => view.panBy(KEY_PAN_PX, 0),
    ArrowRight: () => view.panBy(-KEY_PAN_PX, 0),
    ArrowUp: () => view.panBy(0, KEY_PAN_PX),
    ArrowDown: () => view.panBy(0, -KEY_PAN_PX),
    "+": () => view.zoomBy(KEY_ZOOM),
    "=": () => view.zoomBy(KEY_ZOOM),
    "-": () => view.zoomBy(1 / KEY_ZOOM),
    0: () => view.fit(),
    Home: () => view.fit(),
    Enter: () => onPick(view.hit(view.width / 2, view.height / 2)),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = keys[event.key];
    if (action) action();
    else if (!onKey(event.key)) return;
    event.preventDefault();
  });
}

function at(event) {
  const box = event.currentTarget.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function distance(one, other) {
  return Math.hypot(one.x - other.x, one.y - other.y);
}
