// The newest arrivals, beside the devices.

import { find } from "./devices.js";
import { byId, element, kind, label, moment, plural, write } from "./dom.js";

// Older lines leave, and the page never asks for more than it shows.
export const shownLines = 50;

// What a Live Activity's push did, or why it did nothing.
const result = arrival => arrival.activity_result
  ? (arrival.activity_id ? arrival.activity_id + " " : "") + arrival.activity_result.replaceAll("_", " ")
  : arrival.activity && "Live Activity: " + arrival.activity.event;

const words = arrival => [arrival.title, arrival.subtitle, arrival.body, result(arrival)].filter(Boolean).join(": ");

const line = (arrival, isFresh) => {
  const name = element("button", { type: "button", "aria-label": "Find " + label(arrival) }, label(arrival));
  name.addEventListener("click", () => find(arrival.name || arrival.token));
  const text = words(arrival);
  return element(
    "li", { class: isFresh && "fresh" },
    element("div", { class: "head" }, moment(arrival.time), name, element("span", { class: "kind " + arrival.kind }, arrival.kind)),
    text && element("p", {}, text), arrival.topic && element("p", { class: "small" }, kind(arrival)));
};

// Those that came before the page was opened are shown, but neither lit up nor spoken.
export const note = (arrivals, isHistory) => {
  const pushes = arrivals.filter(arrival => arrival.kind !== "device" || arrival.activity_result);
  if (pushes.length === 0) return;
  byId("quiet").hidden = true;
  const feed = byId("feed");
  feed.prepend(...pushes.slice(-shownLines).reverse().map(arrival => line(arrival, !isHistory)));
  while (feed.children.length > shownLines) feed.lastElementChild.remove();
  if (isHistory) return;
  const last = pushes[pushes.length - 1];
  write(byId("heard"), pushes.length > 1 ? plural(pushes.length, "arrival") : label(last) + ", " + last.kind + ": " + words(last));
};

export const forget = () => {
  byId("feed").replaceChildren();
  byId("quiet").hidden = false;
};
