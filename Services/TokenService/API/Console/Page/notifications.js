// The notifications of an app, the newest first.

import { badge, code, element } from "./dom.js";
import { anyOf, choice, form, labelled, text } from "./forms.js";
import { go, hash, path } from "./paths.js";
import { pages, table } from "./table.js";
import { audience, moment, number } from "./words.js";

const states = ["accepted", "scheduled", "expanding", "sending", "completed", "cancelled", "expired", "no_targets"];
const kinds = { completed: "good", cancelled: "plain", expired: "poor", no_targets: "poor" };

export const stateBadge = state => badge(state, kinds[state] ?? "busy");
export const notificationLink = (app, id) => element("a", { href: hash(path`/apps/${app}/notifications/${id}`) }, code(id));

export const notifications = {
  section: "Notifications",
  scopes: ["read"],
  title: () => "Notifications",
  load: ({ app, query }, read) => read(path`/apps/${app}/notifications`, { limit: 50, ...query }),

  show: ({ notifications: found, next_cursor: next }, { app, query }) => {
    const base = path`/apps/${app}/notifications`;
    return [
      element(
        "div", { class: "finders" },
        form("Which notifications", [
          labelled("State", choice("state", anyOf(states), query.state)), labelled("User", text("user", query.user)),
        ], "Show", chosen => go(base, chosen)),
        form(
          "Open a notification", [labelled("Id", text("id", "", { required: true }))], "Open",
          ({ id }) => go(path`/apps/${app}/notifications/${id}`))),
      table(
        "Notifications of " + app + ", the newest first",
        [
          ["Id", each => notificationLink(app, each.id), "wide"],
          ["Accepted", each => moment(each.accepted_at)],
          ["To", each => audience(each.to)],
          ["State", each => stateBadge(each.state)],
          ["Lane", each => each.lane],
          ["Deliveries", each => number(each.counts.total), "count"],
          ["Pending", each => number(each.counts.pending), "count"],
        ], found, { key: each => each.id, empty: "No notification matches." }),
      pages(base, query, next),
    ].filter(Boolean);
  },
};
