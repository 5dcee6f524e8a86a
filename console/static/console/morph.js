// Changes one tree of nodes into another with as few changes as possible, so that scroll positions, focus,
// open <details>, typed text and selected rows survive. Siblings with an id or data-key are matched by it.

export function morph(target, html) {
  const wanted = document.createElement("template");
  wanted.innerHTML = html;
  change(target, wanted.content);
}

// The same with elements. They may be used in the place of present ones, so that listeners belong on the target.
export function morphTo(target, ...children) {
  const wanted = document.createDocumentFragment();
  wanted.append(...children);
  change(target, wanted);
}

// An element that is moved loses the focus, so that it is given back.
function change(target, wanted) {
  const focused = document.activeElement;
  morphChildren(target, wanted);
  if (focused !== document.activeElement && target.contains(focused)) focused.focus({ preventScroll: true });
}

function morphChildren(target, wanted) {
  const keyed = new Map();
  for (const child of target.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let current = target.firstChild;
  for (const next of [...wanted.childNodes]) {
    const key = keyOf(next);
    const match = key ? keyed.get(key) : current;
    if (match && isSame(match, next)) {
      if (match === current) current = current.nextSibling;
      else target.insertBefore(match, current);
      morphNode(match, next);
    } else {
      target.insertBefore(next, current);
    }
  }
  while (current) {
    const after = current.nextSibling;
    current.remove();
    current = after;
  }
}

function morphNode(node, next) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.nodeValue !== next.nodeValue) node.nodeValue = next.nodeValue;
    return;
  }
  if (node.hasAttribute("data-keep")) return; // a module owns it
  morphAttributes(node, next);
  morphChildren(node, next);
}

// What a person changed is theirs: open panels, ticked boxes, typed text; also what scripts set.
const KEPT = new Set(["open", "checked", "value", "selected"]);

function morphAttributes(node, next) {
  for (const { name, value } of next.attributes) {
    if (!KEPT.has(name) && node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  for (const { name } of [...node.attributes]) {
    const scripted = node.tagName === "TIME" && name === "title";
    if (!next.hasAttribute(name) && !KEPT.has(name) && !scripted) node.removeAttribute(name);
  }
  if (node.tagName === "TIME" && node.title) node.removeAttribute("title"); // set again for the new time
  if (node.tagName === "PROGRESS") node.value = Number(next.getAttribute("value"));
  if (node.tagName === "INPUT" && node.value === node.defaultValue) node.value = node.defaultValue = next.defaultValue;
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.dataset?.key || node.id || "" : "";
}

function isSame(node, next) {
  return node.nodeType === next.nodeType && node.nodeName === next.nodeName && keyOf(node) === keyOf(next);
}
