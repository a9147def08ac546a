// One app at a glance: what became of its deliveries in the last hour, how long its lanes wait, and what is held.

import { chart, rate, totals } from "./chart.js";
import { badge, drawing, element, section } from "./dom.js";
import { holdTable } from "./holds.js";
import { path } from "./paths.js";
import { table } from "./table.js";
import { number, percent, seconds } from "./words.js";

export const activity = {
  section: "Activity",
  scopes: ["read"],
  title: ({ app }) => app,

  load: async ({ app }, read) => ({
    activity: await read(path`/apps/${app}/activity`),
    holds: (await read(path`/apps/${app}/holds`, { state: "live" })).holds,
  }),

  show: ({ activity: { minutes, lanes }, holds }, at) => {
    const counts = totals(minutes), all = Object.values(counts).reduce((sum, count) => sum + count, 0);
    return [
      section(
        "Outcomes of the last hour",
        element(
          "ul", { class: "sums", role: "list" },
          element("li", {}, element("b", {}, rate(minutes)), " a second in the last full minute"),
          element("li", {}, element("b", {}, number(all)), " in the last hour"),
          all > 0 && element("li", {}, element("b", {}, percent((counts.accepted ?? 0) / all)), " accepted by APNs")),
        chart(at.app, minutes)),
      section("Lanes", laneTable(lanes)),
      holds.length > 0 && section("Held now", holdTable(holds, at)),
    ].filter(Boolean);
  },
};

const laneTable = lanes => table(
  "How long the oldest job of each lane has waited for a dispatcher; all apps share the lanes",
  [
    ["Lane", ({ lane }) => lane],
    ["Waits", ({ wait_seconds: wait }) => seconds(wait)],
    ["The first job expires in", ({ deadline_seconds: left }) => seconds(Math.max(0, left))],
    ["Time used", lane => gauge(used(lane))],
    ["State", lane => state(used(lane))],
  ], lanes, { key: ({ lane }) => lane });

const used = ({ wait_seconds: wait, deadline_seconds: left }) => wait === 0 ? 0 : wait / (wait + Math.max(0, left));

const [late, slow] = [1, 0.5];
const state = share => share >= late ? badge("too late", "bad") : share >= slow ? badge("slow", "poor") : badge("in time", "good");
const colour = share => share >= late ? "failed" : share >= slow ? "gone" : "accepted";

const gauge = share => element(
  "span", { class: "gauge" },
  drawing(
    "svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    drawing("rect", { class: "ground", width: 100, height: 6 }),
    drawing("rect", { class: colour(share), width: share === 0 ? 0 : Math.min(100, Math.max(1, share * 100)), height: 6 })),
  percent(share));
