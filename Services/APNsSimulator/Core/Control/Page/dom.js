// Making elements and reading the control API. Text goes into the document as text nodes only: no payload is ever HTML.

export const byId = id => document.getElementById(id);

// Attributes are set by name; strings among the children become text nodes, and what is missing is left out.
export const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value) made.setAttribute(key, value);
  made.append(...children.filter(child => child || child === 0));
  return made;
};

// Writes only what has changed, so that a screen reader hears a status once.
export const write = (target, text) => {
  if (target.textContent !== text) target.textContent = text;
};

export const number = count => count.toLocaleString("en");
export const plural = (count, word) => number(count) + " " + word + (count === 1 ? "" : "s");
export const label = device => device.name || "…" + device.token.slice(-6);

// The topic, and the push type where the topic does not end with it.
export const kind = ({ topic, push_type: type }) =>
  !type || type === "alert" || topic.endsWith("." + type) ? topic : topic + " · " + type;

export const moment = text => {
  const date = new Date(text);
  const day = date.toDateString() === new Date().toDateString() ? "" : date.toLocaleDateString([], { day: "numeric", month: "short" }) + " ";
  return element("time", { datetime: text }, day + date.toLocaleTimeString("en-GB"));
};

export const button = (text, pressed) => {
  const made = element("button", { type: "button" }, text);
  made.addEventListener("click", pressed);
  return made;
};

// How long ago a moment was.
export const since = text => {
  const seconds = Math.max(0, Math.round((Date.now() - new Date(text)) / 1000));
  if (seconds < 60) return seconds + " s ago";
  return seconds < 3600 ? Math.floor(seconds / 60) + " min ago" : Math.floor(seconds / 3600) + " h ago";
};

const exchange = async (path, options) => {
  const answer = await fetch(path, options);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.detail || "status " + answer.status);
  return body;
};

export const read = path => exchange(path);
export const change = (method, path, body) => exchange(path, { method, body: body && JSON.stringify(body) });
export const act = (token, action) => change("POST", "v1/devices/" + token + "/actions", { action });

let silence;
// What an action did, for eyes and screen readers; it leaves after a few seconds.
export const say = text => {
  clearTimeout(silence);
  write(byId("said"), text);
  silence = setTimeout(() => write(byId("said"), ""), 6000);
};
