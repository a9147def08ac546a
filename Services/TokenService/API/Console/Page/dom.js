// Making elements. Text goes into the document as text nodes only: nothing that the API answers is ever HTML.

export const byId = id => document.getElementById(id);

const isShown = child => child !== null && child !== undefined && child !== false && child !== "";

// "onclick" and the like are set as properties, "key" tells render() which node is which, all else is an attribute.
const fill = (made, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") || name === "key") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(2).filter(isShown));
  return made;
};

export const element = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const drawing = (name, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// Writes only what has changed, so that a screen reader hears a status once.
export const write = (target, text) => {
  if (target.textContent !== text) target.textContent = text;
};

export const section = (title, ...children) => element("section", {}, element("h2", {}, title), children);
export const note = (...children) => element("p", { class: "note" }, children);
export const code = text => element("code", {}, text);
export const badge = (text, kind) => element("span", { class: "badge " + (kind || "plain") }, text.replaceAll("_", " "));

// Name and value, one under the other; a value that is absent leaves its name out.
export const facts = pairs => element(
  "dl", { class: "facts" },
  pairs.filter(([, value]) => isShown(value)).map(([name, value]) => element(
    "div", {}, element("dt", {}, name), element("dd", {}, value))));
