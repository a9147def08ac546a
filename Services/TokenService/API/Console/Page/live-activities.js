// The Live Activities of an app: whose they are, and how far the newest state of each has come.

import { badge, code, element } from "./dom.js";
import { anyOf, choice, form, labelled, text } from "./forms.js";
import { link, userLink } from "./installations.js";
import { notificationLink } from "./notifications.js";
import { go, hash, path } from "./paths.js";
import { pages, table } from "./table.js";
import { moment } from "./words.js";

const kinds = { starting: "busy", active: "good", stale: "poor", ended: "plain", dismissed: "plain" };

export const activityBadge = state => badge(state, kinds[state]);
// Another owner may have an activity of the same id.
export const ownerOf = ({ user, installation }) => user ? { user } : { installation };
export const activityLink = (app, activity) =>
  element("a", { href: hash(path`/apps/${app}/activities/${activity.id}`, ownerOf(activity)) }, code(activity.id));
export const owner = (app, { user, installation }) => userLink(app, user) ?? ["no user, ", link(app, installation)];

export const liveActivities = {
  section: "Live Activities",
  scopes: ["read"],
  title: () => "Live Activities",
  load: ({ app, query }, read) => read(path`/apps/${app}/activities`, { limit: 50, ...query }),

  show: ({ activities: found, next_cursor: next }, { app, query }) => {
    const base = path`/apps/${app}/activities`;
    return [
      element(
        "div", { class: "finders" },
        form("Which Live Activities", [
          labelled("State", choice("state", anyOf(Object.keys(kinds)), query.state)), labelled("User", text("user", query.user)),
        ], "Show", chosen => go(base, chosen)),
        form(
          "Open a Live Activity",
          [labelled("Id", text("id", "", { required: true })), labelled("Its user", text("user", query.user, { required: true }))], "Open",
          ({ id, user }) => go(path`/apps/${app}/activities/${id}`, { user }))),
      table(
        "Live Activities of " + app + " in the last seven days, by owner and id",
        [
          ["Id", each => activityLink(app, each), "wide"],
          ["Owner", each => owner(app, each)],
          ["Type", each => each.attributes_type],
          ["State", each => activityBadge(each.state)],
          ["Started", each => moment(each.started_at)],
          ["Newest state", each => each.newest && notificationLink(app, each.newest), "wide"],
          ["Waits", each => each.waiting && badge("waits", "busy")],
        ], found, { key: each => (each.user ?? each.installation) + " " + each.id, empty: "No Live Activity matches." }),
      pages(base, query, next),
    ].filter(Boolean);
  },
};
