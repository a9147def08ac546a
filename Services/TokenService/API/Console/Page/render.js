// Makes what stands in an element equal to new nodes and keeps every node that stays: focus, selection, typed text and an open <details>
// survive a refresh.

export const render = (holder, nodes) => {
  const hadFocus = holder.contains(document.activeElement);
  reconcile(holder, nodes);
  // The control with the focus has gone, for example the button of a hold that was lifted.
  if (hadFocus && !holder.contains(document.activeElement)) document.getElementById("heading").focus();
};

const reconcile = (holder, wanted) => {
  const keys = new Set(wanted.map(node => node.key));
  const known = new Map();
  for (const child of [...holder.childNodes]) {
    if (child.key === undefined) continue;
    if (keys.has(child.key)) known.set(child.key, child); else child.remove();
  }
  let place = holder.firstChild;
  for (const node of wanted) {
    const old = node.key !== undefined ? known.get(node.key) : place && place.key === undefined ? place : null;
    if (!old || old.nodeName !== node.nodeName) {
      holder.insertBefore(node, place);
      continue;
    }
    // A node that is in its place already is not moved: moving takes the focus away.
    if (old === place) place = place.nextSibling; else holder.insertBefore(old, place);
    update(old, node);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
};

const handlers = ["onclick", "onsubmit", "onchange"];

const update = (old, fresh) => {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const name of handlers) old[name] = fresh[name];
  reconcile(old, [...fresh.childNodes]);
};
