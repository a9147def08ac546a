// Tokens that the brake put aside: APNs rejected too many of an app's tokens at once.

import { action, lacking, untilDone } from "./ask.js";
import { code, element, note } from "./dom.js";
import { link } from "./installations.js";
import { path } from "./paths.js";
import { may } from "./session.js";
import { pages, table } from "./table.js";
import { moment, plural } from "./words.js";

export const quarantine = {
  section: "Quarantine",
  scopes: ["read", "admin"],
  title: () => "Quarantine",
  load: ({ app, query }, read) => read(path`/apps/${app}/quarantine`, { limit: 50, ...query }),

  show: ({ total, tokens, next_cursor: next }, { app, query }) => [
    note(
      "If APNs rejects many tokens of the app at once, the platform puts them aside here: the fault may be the app's settings. ",
      "After 30 days a token stays retired for good."),
    total > 0 && element("div", { class: "actions" }, restore(app, null, plural(total, "token")), lacking("admin", "To restore tokens")),
    table(
      plural(total, "token") + " in quarantine",
      [
        ["Installation", each => link(app, each.installation), "wide"], ["Token", each => code(each.hint)],
        ["Environment", each => each.environment], ["Purpose", each => each.purpose], ["Retired", each => moment(each.retired_at)],
        ["Quarantined", each => moment(each.quarantined_at)],
        ...may("admin") ? [["Action", each => restore(app, each.installation, "the tokens of installation " + each.installation)]] : [],
      ], tokens, { empty: "No token is in quarantine." }),
    pages(path`/apps/${app}/quarantine`, query, next),
  ].filter(Boolean),
};

const restore = (app, installation, words) => action("admin", installation ? "Restore" : "Restore all", {
  title: "Restore " + words + "?",
  sentences: [
    "The platform makes " + words + " in quarantine of " + app + " active again, and sends to them.",
    "Do this when the fault is mended. The platform leaves alone what a device has registered since.",
  ],
  yes: "Restore",
  perform: async request => {
    const sum = { restored: 0, superseded: 0 };
    await untilDone(
      () => request("POST", path`/apps/${app}/quarantine/restore`, { body: installation ? { installations: [installation] } : {} }),
      answer => {
        sum.restored += answer.restored;
        sum.superseded += answer.superseded;
        return { done: answer.restored + answer.superseded, remaining: answer.remaining };
      });
    return plural(sum.restored, "token") + " restored, " + sum.superseded + " superseded by a newer one.";
  },
}, installation ? words : null);
