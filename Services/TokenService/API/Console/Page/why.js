// What happened to a notification for one user, from the match to Apple's answer.

import { badge, code, element, facts, note } from "./dom.js";
import { form, labelled, text } from "./forms.js";
import { link } from "./installations.js";
import { kindOf } from "./outcomes.js";
import { go, hash, path } from "./paths.js";
import { moment } from "./words.js";

const conclusions = { sent: "good", waiting: "busy", not_sent: "bad", unknown: "poor", not_addressed: "plain", not_recorded: "plain" };

export const why = {
  scopes: ["read"],
  title: ({ query }) => "Why: " + (query.user ?? ""),
  load: ({ app, id, query: { user } }, read) => user ? read(path`/apps/${app}/notifications/${id}/why`, { user }) : null,

  show: (found, { app, id, query }) => {
    const base = path`/apps/${app}/notifications/${id}`;
    return [
      element("p", {}, element("a", { href: hash(base) }, "Back to the notification ", code(id))),
      form("Explain", [labelled("User", text("user", query.user, { required: true }))], "Explain", chosen => go(base + "/why", chosen)),
      found && element("p", { class: "verdict" }, badge(found.conclusion, conclusions[found.conclusion]), " ", found.explanation),
      found?.is_cut_short && note("The user has more devices, or the notification more deliveries, than were looked at."),
      found && element("ol", { class: "timeline", role: "list" }, found.steps.map(step => line(app, step))),
    ].filter(Boolean);
  },
};

const line = (app, { at, what, why: words, detail = {} }) => element(
  "li", {},
  element("div", { class: "head" }, moment(at) ?? "when is not recorded", badge(what, detail.class && kindOf(detail.class))),
  element("p", {}, words),
  facts([
    ["Installation", detail.installation && link(app, detail.installation)],
    ["Token", detail.hint && code(detail.hint)],
    ["Environment", detail.environment],
    ["Answer", [detail.class, detail.status, detail.reason].filter(Boolean).join(" ")],
    ["Attempts", detail.attempts],
    ["Hold", detail.hold && code(detail.hold)],
    ["Until", moment(detail.until)],
  ]));
