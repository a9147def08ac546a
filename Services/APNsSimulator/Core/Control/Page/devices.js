// The devices that match the search and the filter. The simulator chooses and counts them: however many there are, the page holds sixty.

import { showActivities } from "./activities.js";
import { act, button, byId, element, kind, label, moment, number, plural, read, say, write } from "./dom.js";

const shownDevices = 60, shownGroups = 3;
const cards = new Map();
let turn = 0;

const chosen = () => document.querySelector("input[name=only]:checked");

// Asks for the devices and shows them, unless a newer question was asked meanwhile.
export const refresh = async () => {
  const mine = ++turn;
  const search = byId("search").value.trim(), only = chosen().value;
  const query = "limit=" + shownDevices + "&groups=" + shownGroups
    + (search && "&search=" + encodeURIComponent(search)) + (only && "&only=" + only);
  const list = await read("v1/devices?" + query);
  if (mine === turn) show(list);
};

const show = list => {
  byId("empty").hidden = list.total > 0;
  byId("tools").hidden = list.total === 0;
  byId("unmatched").hidden = list.total === 0 || list.matching > 0;
  const total = number(list.total);
  write(byId("count"), list.total === 0 ? "" : list.matching === list.total ? total : number(list.matching) + " of " + total);
  byId("more").hidden = list.matching <= list.devices.length;
  write(byId("more"), "The first " + list.devices.length + " of " + plural(list.matching, "device") + ". Search or filter to see others.");

  const tokens = new Set(list.devices.map(device => device.token));
  for (const [token, card] of cards) {
    if (tokens.has(token)) continue;
    if (card.root.contains(document.activeElement)) byId("devices").focus();
    card.root.remove();
    cards.delete(token);
  }
  // A card that is in its place already is not moved: moving takes the focus away.
  let place = byId("cards").firstElementChild;
  for (const device of list.devices) {
    let card = cards.get(device.token);
    if (!card) cards.set(device.token, card = makeCard(device.token));
    if (card.root === place) place = place.nextElementSibling; else byId("cards").insertBefore(card.root, place);
    update(card, device);
  }
};

const makeCard = token => {
  const card = { token, written: "", rows: new Map() };
  card.name = element("h3", { id: "name-" + token });
  card.badge = element("span", { class: "badge", role: "img" });
  card.state = element("span");
  card.fold = button("⋯", () => {
    const isOpen = card.root.classList.toggle("open");
    card.fold.setAttribute("aria-expanded", isOpen);
  });
  card.fold.className = "fold";
  card.fold.setAttribute("aria-expanded", "false");
  card.fold.setAttribute("aria-controls", "actions-" + token);
  card.facts = element("p", { class: "facts" });
  card.activities = element("ul", { class: "screen", role: "list" });
  card.screen = element("ul", { class: "screen", role: "list" });
  card.rest = element("p", { class: "rest" });
  card.power = button("", () => perform(card, card.device.online ? "offline" : "online"));
  card.uninstall = button("Uninstall", () => perform(card, "uninstall"));
  card.reinstall = button("Reinstall", () => perform(card, "reinstall"));
  const actions = element("div", { class: "actions", id: "actions-" + token, role: "group" }, card.power, card.uninstall, card.reinstall);
  card.actions = actions;
  card.root = element(
    "li", { class: "card", "aria-labelledby": "name-" + token }, element("div", { class: "head" }, card.name, card.badge, card.state, card.fold),
    card.facts, card.activities, card.screen, card.rest, actions);
  return card;
};

// Changes a card in place, and only when its device has changed: focus, selection and a screen reader's place stay.
const update = (card, device) => {
  card.device = device;
  showActivities(card, device.activities, refresh);
  const written = JSON.stringify(device);
  if (card.written === written) return;
  const isFirst = card.written === "";
  card.written = written;
  const name = label(device), isHere = device.state !== "uninstalled";
  const [stateClass, state] = device.state === "expired" ? ["gone", "Token expired"]
    : !isHere ? ["gone", "Uninstalled"] : device.online ? ["on", "On"] : ["off", "Off"];
  const isOpen = card.root.classList.contains("open");
  card.root.className = ["card", stateClass, device.groups.length + device.activities.length > 0 && "lit", isOpen && "open"].filter(Boolean).join(" ");
  card.state.className = "state " + stateClass;
  write(card.name, name);
  write(card.state, state);
  write(card.badge, String(device.badge || ""));
  card.badge.hidden = !device.badge;
  card.badge.setAttribute("aria-label", "Badge " + device.badge);
  const facts = [device.environment, "…" + device.token.slice(-6), device.stored > 0 && device.stored + " stored",
    device.missed > 0 && plural(device.missed, "broadcast") + " missed"];
  write(card.facts, facts.filter(Boolean).join(" · "));
  write(card.power, device.online ? "Turn off" : "Turn on");
  card.actions.setAttribute("aria-label", "Actions for " + name);
  card.fold.setAttribute("aria-label", "Actions for " + name);
  for (const pressed of [card.power, card.uninstall, card.reinstall]) pressed.setAttribute("aria-label", pressed.textContent + " " + name);
  const focused = document.activeElement;
  card.power.hidden = card.uninstall.hidden = !isHere;
  if (!isHere && (focused === card.power || focused === card.uninstall)) card.reinstall.focus();
  showScreen(card, device, isFirst);
};

const showScreen = (card, device, isFirst) => {
  const groups = device.groups.slice().reverse();
  const newest = groups.length > 0 ? groups[0].newest.apns_id + groups[0].newest.received_at : "";
  const isFresh = !isFirst && newest !== "" && newest !== card.newest;
  card.newest = newest;
  card.screen.replaceChildren(...groups.map((group, index) => note(group, isFresh && index === 0)));
  const hiddenGroups = device.group_count - groups.length;
  card.rest.hidden = hiddenGroups <= 0;
  write(card.rest, "and " + plural(hiddenGroups, "older group"));
};

const note = ({ newest, count }, isFresh) => {
  const classes = ["note", count > 1 && "stack", isFresh && "fresh"].filter(Boolean).join(" ");
  const facts = element("span", { class: "small" }, moment(newest.received_at), " · " + [
    kind(newest), newest.thread_id, count > 1 && count + " in this group",
  ].filter(Boolean).join(" · "));
  return element(
    "li", { class: classes }, newest.title && element("strong", {}, newest.title), newest.subtitle && element("strong", {}, newest.subtitle),
    newest.body && element("p", {}, newest.body), facts);
};

const perform = async (card, action) => {
  const name = label(card.device);
  try {
    const device = await act(card.token, action);
    say({
      offline: name + " is off.", online: name + " is on.", uninstall: name + " no longer has the app.",
      reinstall: name + " has the app again, with the new token …" + device.token.slice(-6) + ".",
    }[action]);
    await refresh();
  } catch (problem) {
    say("That did not work: " + problem.message);
  }
};

// The search asks when the typing rests, the filter at once.
export const beginTools = update => {
  let rest;
  byId("search").addEventListener("input", () => {
    clearTimeout(rest);
    rest = setTimeout(update, 150);
  });
  for (const choice of document.getElementsByName("only")) choice.addEventListener("change", update);
  byId("clear").addEventListener("click", () => {
    find("");
    byId("search").focus();
  });
  const command = "curl -X PUT " + new URL("v1/devices/00aa11bb22cc33dd44ee55ff66778899", document.baseURI).href
    + " \\\n    -d '{\"environment\":\"production\",\"name\":\"Ada\"}'";
  write(byId("command"), command);
  // A browser offers its clipboard to loopback and HTTPS pages only; the command can be selected everywhere.
  byId("copy").hidden = !navigator.clipboard;
  byId("copy").addEventListener("click", () => navigator.clipboard.writeText(command).then(
    () => say("The command is in the clipboard."), () => say("The browser does not allow copying: select the command instead.")));
};

// Shows all devices that have this in their name or token.
export const find = text => {
  byId("search").value = text;
  document.querySelector("input[name=only]").checked = true;
  byId("search").dispatchEvent(new Event("input"));
};
