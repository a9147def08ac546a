// One installation: its user, its tokens, whether it is reachable, and what happened to it.

import { action, lacking, pendingFence } from "./ask.js";
import { badge, code, element, facts, section } from "./dom.js";
import { link, userLink } from "./installations.js";
import { activityLink } from "./live-activities.js";
import { path } from "./paths.js";
import { pages, table } from "./table.js";
import { moment } from "./words.js";

export const installation = {
  scopes: ["read", "devices"],
  title: () => "Installation",

  load: async ({ app, id, query }, read) => ({
    record: await read(path`/apps/${app}/installations/${id}`),
    history: await read(path`/apps/${app}/installations/${id}/history`, { limit: 50, ...query }),
  }),

  show: ({ record, history }, { app, id, query }) => [
    facts([
      ["Id", code(record.id)], ["User", userLink(app, record.user) ?? badge("signed out")],
      ["Reachable", [reached(history), " ", history.explanation]],
      ["Throttled until", moment(record.throttled_until)], ["Registered", moment(record.registered_at)],
      ["Made", moment(record.created_at)], ["Device", [record.device_model, record.os_version].filter(Boolean).join(" ")],
      ["App version", record.app_version], ["Locale", record.locale], ["Time zone", record.time_zone], ["Tags", record.tags.join(", ")],
      ["App tags", record.app_tags.join(", ")],
      ["Owner epoch", record.owner_epoch],
    ]),
    record.user && element("div", { class: "actions" }, logOut(app, record), lacking("devices", "To log out")),
    section("Tokens", table(
      "Tokens, the active ones first",
      [
        ["Token", each => code(each.hint)], ["State", each => badge(each.state, each.state === "active" ? "good" : "poor")],
        ["Environment", each => each.environment], ["Purpose", each => purpose(app, record, each)],
        ["Registered", each => moment(each.registered_at)], ["Retired", each => moment(each.retired_at)],
        ["Because", each => each.retired_reason], ["Ended by APNs", each => moment(each.ended_by_apns_at)],
      ], record.tokens, { empty: "It has no token." })),
    section(
      "History", table(
        "What happened, the newest first",
        [
          ["When", each => moment(each.at)], ["Event", each => badge(each.event)], ["User", each => userLink(app, each.user)],
          ["Token", each => each.token && code(each.token.hint)], ["Answer", each => [each.status, each.reason].filter(Boolean).join(" ")],
          ["Other installation", each => each.other_installation && link(app, each.other_installation), "wide"],
        ], history.entries, { empty: "Nothing is recorded." }),
      pages(path`/apps/${app}/installations/${id}`, query, history.next_cursor)),
  ].filter(Boolean),
};

const reached = ({ reachable, rejected_at: rejected }) =>
  rejected ? badge("rejected", "poor") : badge(reachable ? "yes" : "no", reachable ? "good" : "poor");

// The purpose of an update token names its Live Activity, which is the user's who is signed in.
const purpose = (app, { id: installation, user }, { purpose: words }) => {
  const [, id] = words.split(/^activity:/);
  return id === undefined ? words : ["activity ", activityLink(app, { id, user, installation })];
};

const logOut = (app, { id, user }) => action("devices", "Log out", {
  title: "Log this installation out?",
  sentences: [
    "The platform signs " + user + " out on installation " + id + " of " + app + ".",
    "It sends nothing more to this user there, also nothing that it has accepted. The device must register again.",
    "If another user is signed in by then, nothing happens.",
  ],
  yes: "Log out",
  perform: async request => {
    const answer = await request("POST", path`/apps/${app}/installations/${id}/logout`, { body: { expected_user: user } });
    return (answer.signed_out ? "Signed out." : "It was signed out already.") + pendingFence(answer);
  },
});
