// The Live Activities on a device's lock screen. Each changes in place, so that the focus and a screen reader's place stay.

import { byId, button, change, element, label, plural, say, since, write } from "./dom.js";

const states = { active: "Active", stale: "Stale", ended: "Ended" };

const path = (card, id) => "v1/devices/" + card.token + "/activities/" + encodeURIComponent(id);

const makeRow = (card, id, refresh) => {
  const perform = async (deed, done) => {
    try {
      const activity = await deed();
      say(id + " on " + label(card.device) + done(activity));
      await refresh();
    } catch (problem) {
      say("That did not work: " + problem.message);
    }
  };
  const row = { written: "" };
  row.type = element("strong");
  row.state = element("span", { class: "phase" });
  row.content = element("dl");
  row.age = element("span");
  row.facts = element("span");
  row.rotate = button("Rotate token", () => perform(
    () => change("POST", path(card, id) + "/rotate", {}), activity => " has the new token …" + activity.update_token.slice(-6) + "."));
  row.dismiss = button("Dismiss", () => perform(() => change("DELETE", path(card, id)), () => " is dismissed."));
  row.root = element(
    "li", { class: "note activity" }, element("div", { class: "head" }, row.type, row.state), row.content,
    element("span", { class: "small" }, row.age, row.facts), element("div", { class: "deeds", role: "group" }, row.rotate, row.dismiss));
  return row;
};

const shown = value => typeof value === "object" ? JSON.stringify(value) : String(value);

const update = (card, row, activity) => {
  // The age changes by itself, everything else with the activity.
  write(row.age, (activity.event === "start" ? "started " : activity.event === "end" ? "ended " : "updated ") + since(activity.updated_at));
  const written = JSON.stringify([activity, label(card.device)]);
  if (row.written === written) return;
  row.written = written;
  const name = activity.id + " on " + label(card.device);
  row.root.className = "note activity " + activity.state;
  write(row.type, activity.attributes_type || activity.id);
  write(row.state, states[activity.state]);
  row.content.replaceChildren(...Object.entries(activity.content_state || {}).map(
    ([key, value]) => element("div", {}, element("dt", {}, key), element("dd", {}, shown(value)))));
  write(row.facts, [
    "", activity.id, activity.update_token && "token …" + activity.update_token.slice(-6),
    activity.channel_id && "channel " + activity.channel_id.slice(0, 6) + "…",
    activity.budget_left !== undefined && plural(activity.budget_left, "update") + " left in this hour",
  ].filter(part => part || part === "").join(" · "));
  const hadFocus = document.activeElement === row.rotate;
  row.rotate.hidden = !activity.update_token || activity.state === "ended";
  if (row.rotate.hidden && hadFocus) row.dismiss.focus();
  row.rotate.setAttribute("aria-label", "Rotate token of " + name);
  row.dismiss.setAttribute("aria-label", "Dismiss " + name);
};

export const showActivities = (card, activities, refresh) => {
  const ids = new Set(activities.map(activity => activity.id));
  for (const [id, row] of card.rows) {
    if (ids.has(id)) continue;
    if (row.root.contains(document.activeElement)) byId("devices").focus();
    row.root.remove();
    card.rows.delete(id);
  }
  let place = card.activities.firstElementChild;
  for (const activity of activities) {
    let row = card.rows.get(activity.id);
    if (!row) card.rows.set(activity.id, row = makeRow(card, activity.id, refresh));
    if (row.root === place) place = place.nextElementSibling; else card.activities.insertBefore(row.root, place);
    update(card, row, activity);
  }
};
