// The outcomes of the last hour, minute by minute: bars for eyes, a legend with every class and its figure, a table for screen readers.

import { drawing, element } from "./dom.js";
import { familyOf, families } from "./outcomes.js";
import { moment, number, plural } from "./words.js";
import { table } from "./table.js";

const shownMinutes = 60, barWidth = 8, gap = 2, height = 100;

const sum = outcomes => Object.values(outcomes).reduce((total, count) => total + count, 0);
const start = text => Math.floor(Date.parse(text) / 60000);

// The newest minute is the reader's own, or the service's where its clock is ahead.
export const newestMinute = minutes => Math.max(Math.floor(Date.now() / 60000), ...minutes.map(({ minute }) => start(minute)));

export const totals = minutes => {
  const found = {};
  for (const { outcomes } of minutes) for (const [name, count] of Object.entries(outcomes)) found[name] = (found[name] ?? 0) + count;
  return found;
};

// Outcomes a second in the last full minute.
export const rate = minutes => {
  const full = minutes.find(({ minute }) => start(minute) === newestMinute(minutes) - 1);
  return (full ? sum(full.outcomes) / 60 : 0).toFixed(1);
};

const bar = ({ minute, outcomes }, place, highest) => {
  let top = height;
  const parts = families.map(family => {
    const named = Object.entries(outcomes).filter(([name]) => familyOf(name) === family.name);
    const count = named.reduce((total, [, each]) => total + each, 0);
    if (count === 0) return null;
    // A few failures among thousands must be seen.
    const tall = Math.max(2, count / highest * (height - 6));
    top -= tall;
    return drawing("rect", { class: family.name, x: place * (barWidth + gap), y: top, width: barWidth, height: tall });
  });
  const words = Object.entries(outcomes).map(([name, count]) => name + " " + number(count)).join(", ");
  return drawing("g", { key: minute }, drawing("title", {}, new Date(minute).toLocaleTimeString("en-GB") + ": " + words), parts);
};

const legend = counts => element(
  "ul", { class: "legend", role: "list" },
  families.flatMap(family => Object.entries(counts).filter(([name]) => familyOf(name) === family.name).map(([name, count]) => element(
    "li", {}, element("span", { class: "swatch " + family.name }), element("span", {}, name.replaceAll("_", " ")),
    element("b", {}, number(count))))));

export const chart = (app, minutes, { isSmall } = {}) => {
  const last = newestMinute(minutes), highest = Math.max(1, ...minutes.map(({ outcomes }) => sum(outcomes))), counts = totals(minutes);
  const shown = minutes.filter(({ minute }) => start(minute) > last - shownMinutes);
  const words = "Outcomes of " + app + " in the last hour, minute by minute: "
    + (Object.entries(counts).map(([name, count]) => name + " " + number(count)).join(", ") || "none");
  const bars = drawing(
    "svg", { class: "chart", viewBox: "0 0 600 " + height, preserveAspectRatio: "none", role: "img", "aria-label": words },
    shown.map(each => bar(each, start(each.minute) - last + shownMinutes - 1, highest)));
  const axis = element(
    "p", { class: "axis", "aria-hidden": "true" }, element("span", {}, "an hour ago"),
    element("span", {}, shown.length === 0 ? "no outcome" : "at most " + number(highest) + " a minute"), element("span", {}, "now"));
  const rows = shown.slice().reverse();
  return element(
    "div", { class: isSmall ? "figure compact" : "figure" }, bars, axis, legend(counts),
    !isSmall && element(
      "details", {}, element("summary", {}, "The same as a table"),
      table(
        "Outcomes by minute, the newest first",
        [
          ["Minute", ({ minute }) => moment(minute)],
          ["Outcomes", ({ outcomes }) => Object.entries(outcomes).map(([name, count]) => name + " " + number(count)).join(", ")],
          ["Together", ({ outcomes }) => plural(sum(outcomes), "outcome")],
        ], rows, { key: ({ minute }) => minute, empty: "No delivery ended in the last hour." })));
};
