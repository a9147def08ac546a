// Dead letters: jobs that were given up. For a key of an administrator that is bound to no app.

import { administration, untilDone } from "./ask.js";
import { code, element, facts, section } from "./dom.js";
import { choice, form, labelled, text } from "./forms.js";
import { notificationLink } from "./notifications.js";
import { go, hash, path } from "./paths.js";
import { table } from "./table.js";
import { moment, number, plural } from "./words.js";

const extensions = [["", "leave them alone"], ["3600", "give them an hour more"], ["86400", "give them a day more"]];

// One client at a time reads the queue of the broker: a page that read it every few seconds would be in the way of replays by others.
export const deadLetters = {
  section: "Dead letters",
  isAdministrative: true,
  isStill: true,
  title: () => "Dead letters",

  load: ({ query: { extend, ...filter } }, read) => read("/admin/dead-letters", { limit: 100, ...filter }),

  show: (found, { query: { extend, ...filter } }) => {
    const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value));
    const words = Object.entries(given).map(([name, value]) => name + " " + value).join(", ") || "every dead letter";
    const chosen = Object.keys(given).length > 0 ? given : { all: true };
    return [
      form("Which dead letters", [
        labelled("App", text("app", given.app)), labelled("Reason", text("reason", given.reason)),
        labelled("Lane", choice("lane", [["", "any"], ["now", "now"], ["soon", "soon"], ["bulk", "bulk"]], given.lane)),
        labelled("Notification", text("notification", given.notification)),
        labelled("When replayed after their expiry", choice("extend", extensions, extend)),
      ], "Show", chosenFilter => go("/dead-letters", chosenFilter)),
      section(
        "By reason and app",
        table(
          plural(found.matched, "letter") + " of " + number(found.seen) + (found.complete ? "" : " and more"),
          [
            ["Reason", each => code(each.reason)], ["App", each => each.app],
            ["Letters", each => number(each.letters), "count"], ["Deliveries", each => number(each.deliveries), "count"],
            ["Show", each => element(
              "a", { href: hash("/dead-letters", { ...given, reason: each.reason, app: each.app, extend }) }, "Only these")],
          ], found.counts, { empty: "There is no dead letter." }),
        found.matched > 0 && element(
          "div", { class: "actions" }, replay(chosen, words, plural(found.matched, "letter"), extend),
          drop(chosen, words, plural(found.matched, "letter")))),
      section("The oldest", table(
        "Dead letters, the oldest first",
        [
          ["Id", each => each.id ? element("a", { href: hash(path`/dead-letters/${each.id}`) }, code(each.id)) : "none", "wide"],
          ["Given up", each => moment(each.at)], ["Reason", each => code(each.reason)], ["App", each => each.app],
          ["Lane", each => each.lane], ["Deliveries", each => each.deliveries, "count"], ["Attempts", each => each.attempts, "count"],
          ["Expires", each => moment(each.expires_at)],
        ], found.letters, { key: each => each.id, empty: "There is no dead letter." })),
    ];
  },
};

export const deadLetter = {
  isAdministrative: true,
  isStill: true,
  title: () => "Dead letter",
  load: ({ id }, read) => read(path`/admin/dead-letters/${id}`),

  show: (letter, { id }) => [
    facts([
      ["Id", code(letter.id)], ["Reason", code(letter.reason)], ["Detail", letter.detail],
      ["Came from", letter.source && code(letter.source)], ["Given up", moment(letter.at)],
      ["App", letter.app && element("a", { href: hash(path`/apps/${letter.app}`) }, letter.app)], ["Lane", letter.lane],
      ["Notification", letter.notification && notificationLink(letter.app, letter.notification)],
      ["Push type", letter.push_type], ["Deliveries", letter.deliveries], ["Attempts", letter.attempts],
      ["Expires", moment(letter.expires_at)],
      ["Bytes", number(letter.bytes)],
    ]),
    element(
      "div", { class: "actions" }, replay({ ids: [id] }, "letter " + id, "1 letter"), drop({ ids: [id] }, "letter " + id, "1 letter")),
    letter.job && section(
      "Its job", element("pre", { tabindex: "0", "aria-label": "The job as JSON" }, JSON.stringify(letter.job, null, 2))),
  ].filter(Boolean),
};

const replay = (chosen, words, count, extend) => administration("Replay", {
  title: "Replay " + count + "?",
  sentences: [
    "The platform replays " + words + " (" + count + " when this page last read them).",
    "It decides each delivery anew. It sends only where the same user is still signed in, to the token that the installation has now.",
    "Notifications that are past their expiry "
      + (extend ? "get " + plural(Number(extend), "second") + " more." : "stay dead letters."),
  ],
  yes: "Replay",
  perform: async request => {
    const sum = { letters: 0, kept: 0, sent: 0 };
    await untilDone(
      () => request("POST", "/admin/dead-letters/replay", { body: { ...chosen, ...extend ? { extend_seconds: Number(extend) } : {} } }),
      answer => {
        sum.letters += answer.letters;
        sum.kept = answer.kept;
        sum.sent += answer.deliveries.sent;
        return { done: answer.letters, remaining: answer.remaining };
      });
    return "Replayed " + plural(sum.letters, "letter") + ": " + plural(sum.sent, "delivery", "deliveries") + " sent again; "
      + plural(sum.kept, "letter") + " kept.";
  },
}, words);

const drop = (chosen, words, count) => administration("Drop", {
  title: "Drop " + count + "?",
  sentences: [
    "The platform drops " + words + " (" + count + " when this page last read them) for good.",
    "Their deliveries are never sent. This cannot be undone.",
  ],
  yes: "Drop for good",
  perform: async request => {
    let letters = 0;
    await untilDone(() => request("POST", "/admin/dead-letters/drop", { body: chosen }), answer => {
      letters += answer.letters;
      return { done: answer.letters, remaining: answer.remaining };
    });
    return "Dropped " + plural(letters, "letter") + ".";
  },
}, words);
