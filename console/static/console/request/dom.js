// Elements from text. Text is never parsed as markup.
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// A list of terms; entries without a value are left out.
export function facts(pairs) {
  const list = make("dl");
  for (const [name, value] of pairs) {
    if (value !== "" && value !== null && value !== undefined) list.append(make("dt", {}, name), make("dd", {}, value));
  }
  return list;
}
