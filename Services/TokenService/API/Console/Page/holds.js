// Holds of an app, or over every app: a list, and a form that sets one.

import { action, administration, ask, lacking, pendingFence } from "./ask.js";
import { badge, code, element, section } from "./dom.js";
import { choice, form, labelled, text } from "./forms.js";
import { go, hash, path } from "./paths.js";
import { may, mayAdminister } from "./session.js";
import { pages, table } from "./table.js";
import { moment } from "./words.js";

const lengths = [["", "until it is lifted"], ["1800", "30 minutes"], ["7200", "2 hours"], ["86400", "a day"], ["604800", "7 days"]];
const lanes = [["all", "everything"], ["now", "lane now"], ["soon", "lane soon"], ["bulk", "lane bulk"]];

const holdsPath = app => app ? path`/apps/${app}/holds` : "/admin/holds";
const place = app => app ? path`/apps/${app}/holds` : "/holds";
const owner = app => app ? "of " + app : "of every app";

const view = {
  load: ({ app, query: { state, cursor } }, read) => read(holdsPath(app), { limit: 50, state: state ?? "live", cursor }),

  show: ({ holds: found, next_cursor: next }, at) => {
    const isAll = at.query.state === "", base = place(at.app);
    return [
      (at.app ? may("admin") : mayAdminister()) && section("Set a hold", setter(at)),
      lacking("admin", "To set or lift a hold"),
      element("p", {}, isAll
        ? element("a", { href: hash(base) }, "Show those in force alone")
        : element("a", { href: hash(base) + "?state=" }, "Show those that have ended too")),
      holdTable(found, at),
      pages(base, at.query, next),
    ].filter(Boolean);
  },
};

export const holds = { section: "Holds", scopes: ["read", "admin"], title: () => "Holds", ...view };
export const everyHold = { section: "Holds of every app", isAdministrative: true, title: () => "Holds of every app", ...view };

const setter = ({ app, query: { notification } }) => form(
  "Set a hold", [
    labelled("What", choice("what", [...notification ? [["notification", "notification " + notification]] : [], ...lanes])),
    labelled("How long", choice("seconds", lengths)),
    labelled("Reason, for other operators", text("reason", "", { required: true, maxlength: 200 })),
  ], "Set a hold…", (chosen, fields) => set(app, notification, chosen, fields));

const set = (app, notification, { what, seconds, reason }, fields) => {
  const words = wordsOf({ app, ...what === "notification" ? { notification } : what === "all" ? {} : { lane: what } });
  const length = lengths.find(([value]) => value === seconds)[1];
  const end = seconds ? "It ends by itself after " + length + "." : "It lasts until an operator lifts it.";
  ask({
    title: "Set this hold?",
    sentences: [
      "The dispatchers stop sending " + words + " within a second.", end,
      "Held notifications wait. They expire when they would have expired without the hold.", "The reason that is recorded: " + reason,
    ],
    yes: "Set the hold",
    perform: async request => {
      const scope = what === "all" ? { all: true } : what === "notification" ? { notification } : { lane: what };
      const length = seconds ? { ttl_seconds: Number(seconds) } : {};
      const answer = await request("POST", holdsPath(app), { body: { ...scope, reason, ...length } });
      fields.reset();
      return "Held: " + words + "." + pendingFence(answer);
    },
  });
};

const wordsOf = ({ app, lane, notification }) =>
  notification ? "notification " + notification : (lane ? "lane " + lane : "everything") + " " + owner(app);

const subject = hold => hold.notification ? ["notification ", code(hold.notification)] : hold.lane ? "lane " + hold.lane : "everything";

export const holdTable = (found, { app }) => table(
  "Holds " + owner(app) + ", the newest first",
  [
    ["What", each => subject(each), "wide"],
    ["App", each => each.app ?? "every app"],
    ["State", each => badge(each.state, each.state === "live" ? "poor" : "plain")],
    ["Reason", each => each.reason],
    ["Set", each => moment(each.set_at)],
    ["By key", each => code(each.set_by)],
    ["Ends", each => moment(each.lifted_at ?? each.expires_at) ?? "when lifted"],
    ...may("admin") ? [["Action", each => each.state === "live" && lift(each)]] : [],
  ], found, { key: each => each.id, empty: "Nothing is held." });

const lift = hold => {
  const question = {
    title: "Lift this hold?",
    sentences: [
      "The platform ends the hold on " + wordsOf(hold) + ". Its reason was: " + hold.reason,
      "The platform sends what waits: a little within seconds, much of it within ten minutes. Another hold on the same goes on.",
    ],
    yes: "Lift the hold",
    perform: async request => {
      const answer = await request("DELETE", holdsPath(hold.app) + path`/${hold.id}`);
      return (answer.state === "expired" ? "It had ended by itself." : "Lifted.") + pendingFence(answer);
    },
  };
  const name = "the hold: " + hold.reason;
  return hold.app ? action("admin", "Lift", question, name) : administration("Lift", question, name);
};
