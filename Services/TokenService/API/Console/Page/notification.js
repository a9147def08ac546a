// One notification: its state, how its deliveries ended, and the deliveries page by page.

import { action, lacking, pendingFence } from "./ask.js";
import { badge, code, element, facts, section } from "./dom.js";
import { anyOf, choice, form, labelled, text } from "./forms.js";
import { link } from "./installations.js";
import { stateBadge } from "./notifications.js";
import { classes, kindOf } from "./outcomes.js";
import { go, hash, path } from "./paths.js";
import { may } from "./session.js";
import { pages, table } from "./table.js";
import { audience, moment, number, percent, plural } from "./words.js";

const over = ["completed", "cancelled", "expired", "no_targets"];

export const notification = {
  scopes: ["read"],
  title: () => "Notification",

  load: async ({ app, id, query }, read) => ({
    status: await read(path`/apps/${app}/notifications/${id}`),
    page: await read(path`/apps/${app}/notifications/${id}/deliveries`, { limit: 50, ...query }),
  }),

  show: ({ status, page }, { app, id, query }) => {
    const base = path`/apps/${app}/notifications/${id}`, user = status.to.user;
    return [
      facts([
        ["Id", code(status.id)], ["State", stateBadge(status.state)], ["To", audience(status.to)], ["Lane", status.lane],
        ["Push type", status.push_type], ["Receipts", status.receipts], ["Accepted", moment(status.accepted_at)],
        ["Not before", moment(status.not_before)], ["Local time", status.local_time], ["Expires", moment(status.expires_at)],
        ["Completed", moment(status.completed_at)], ["Cancelled", moment(status.cancelled_at)], ["Cancelled because", status.cancel_reason],
        ["Devices report", status.device_receipts && reported(status.device_receipts)],
      ]),
      !over.includes(status.state) && element(
        "div", { class: "actions" }, cancel(app, status),
        may("admin") && element("a", { href: hash(path`/apps/${app}/holds`, { notification: id }) }, "Hold this notification"),
        lacking("send", "To cancel")),
      section("How its deliveries ended", outcomeTable(status)),
      section(
        "Why it reached a user, or did not",
        form("Explain", [labelled("User", text("user", user, { required: true }))], "Explain", chosen => go(base + "/why", chosen))),
      section(
        "Deliveries",
        form(
          "Which deliveries", [labelled("State", choice("state", anyOf(["pending", ...classes]), query.state))], "Show",
          chosen => go(base, chosen)),
        deliveryTable(app, page), pages(base, query, page.next_cursor)),
    ].filter(Boolean);
  },
};

const cancel = (app, status) => action("send", "Cancel the notification", {
  title: "Cancel this notification?",
  sentences: [
    "The platform stops notification " + status.id + " of " + app + " for good, as far as it was not sent yet.",
    status.counts.total === 0 ? "No delivery has been made yet."
      : number(status.counts.pending) + " of " + plural(status.counts.total, "delivery", "deliveries")
        + " had no outcome when this page last read them. A push that has left arrives all the same.",
  ],
  yes: "Cancel the notification",
  perform: async request => {
    const answer = await request("DELETE", path`/apps/${app}/notifications/${status.id}`);
    if (answer.state !== "cancelled") return "Too late: it is " + answer.state + ". Nothing was stopped.";
    const more = answer.not_expanded ? " More would have followed." : "";
    return "Cancelled. " + plural(answer.stoppable, "delivery was", "deliveries were") + " still stoppable." + more + pendingFence(answer);
  },
});

const outcomeTable = ({ counts, reasons }) => {
  const rows = [...counts.pending > 0 ? [{ class: "pending", count: counts.pending }] : [], ...reasons];
  return table(
    plural(counts.total, "delivery", "deliveries") + ", the most frequent outcome first",
    [
      ["Outcome", each => badge(each.class, kindOf(each.class))],
      ["Status of APNs", each => each.status],
      ["Reason", each => each.reason],
      ["Deliveries", each => number(each.count), "count"],
      ["Share", each => percent(each.count / counts.total), "count"],
    ], rows, { key: each => [each.class, each.status, each.reason].join(" "), empty: "No delivery was made yet." });
};

const reported = ({ shown, opened, dismissed }) =>
  number(shown) + " shown, " + number(opened) + " opened, " + number(dismissed) + " dismissed";

const onDevice = each => [["opened", each.opened_at], ["dismissed", each.dismissed_at], ["shown", each.shown_at]].find(([, at]) => at)?.[0];

const captions = {
  all: "One row for each delivery",
  failures: "Deliveries that failed or were tried more than once; of the others only counters are kept",
};

const deliveryTable = (app, { deliveries, receipts }) => table(
  captions[receipts],
  [
    ["Installation", each => link(app, each.installation), "wide"],
    ["Token", each => each.hint && code(each.hint)],
    ["Environment", each => each.environment],
    ["State", each => badge(each.state, kindOf(each.state))],
    ["Answer", each => [each.status, each.reason].filter(Boolean).join(" ")],
    ["Attempts", each => number(each.attempts), "count"],
    ["On the device", onDevice],
    ["Changed", each => moment(each.updated_at)],
  ], deliveries, { key: each => each.id, empty: "No delivery matches." });
