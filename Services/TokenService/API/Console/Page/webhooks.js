// The webhooks of an app, and one of them with its messages.

import { action } from "./ask.js";
import { badge, code, element, facts, note, section } from "./dom.js";
import { anyOf, choice, form, labelled } from "./forms.js";
import { go, hash, path } from "./paths.js";
import { pages, table } from "./table.js";
import { moment, number, plural } from "./words.js";

const stateBadge = webhook => webhook.enabled ? badge("enabled", "good") : badge("disabled: " + (webhook.disabled_reason ?? ""), "bad");

export const webhooks = {
  section: "Webhooks",
  scopes: ["admin"],
  title: () => "Webhooks",
  load: ({ app }, read) => read(path`/apps/${app}/webhooks`),

  show: ({ webhooks: found }, { app }) => [table(
    "Webhooks of " + app,
    [
      ["URL", each => element("a", { href: hash(path`/apps/${app}/webhooks/${each.id}`) }, each.url), "wide"],
      ["Description", each => each.description], ["Events", each => each.events.join(", ")], ["State", stateBadge],
      ["Last success", each => moment(each.last_success_at)], ["Last failure", each => moment(each.last_failure_at)],
      ["Failure", each => each.last_failure],
    ], found, { key: each => each.id, empty: "The app has no webhook: make one with pushctl webhooks create." })],
};

const messageKinds = { delivered: "good", pending: "busy", failed: "bad" };

export const webhook = {
  scopes: ["admin"],
  title: () => "Webhook",

  load: async ({ app, id, query }, read) => ({
    hook: await read(path`/apps/${app}/webhooks/${id}`),
    page: await read(path`/apps/${app}/webhooks/${id}/messages`, { limit: 50, ...query }),
  }),

  show: ({ hook, page }, { app, id, query }) => {
    const base = path`/apps/${app}/webhooks/${id}`;
    return [
      facts([
        ["URL", hook.url], ["Id", code(hook.id)], ["State", stateBadge(hook)], ["Description", hook.description],
        ["Events", hook.events.join(", ")], ["Disabled", moment(hook.disabled_at)], ["Made", moment(hook.created_at)],
        ["Failing since", moment(hook.failing_since)],
        ["Last success", moment(hook.last_success_at)], ["Last failure", moment(hook.last_failure_at)], ["Failure", hook.last_failure],
      ]),
      element("div", { class: "actions" }, hook.enabled ? ping(base, hook) : enable(base, hook), redeliver(base, hook, { failed: true })),
      !hook.enabled && note("Messages wait while it is disabled."),
      section(
        "Messages",
        form(
          "Which messages", [labelled("State", choice("state", anyOf(Object.keys(messageKinds)), query.state))], "Show",
          chosen => go(base, chosen)),
        table(
          "Messages, the newest first",
          [
            ["Id", each => code(each.id), "wide"], ["Event", each => each.event],
            ["State", each => badge(each.state, messageKinds[each.state])], ["Attempts", each => number(each.attempts), "count"],
            ["Last attempt", each => moment(each.last_attempt_at)],
            ["Answer", each => [each.last_status, each.last_error].filter(Boolean).join(" ")],
            ["Next attempt", each => moment(each.due_at)],
            ["Action", each => each.state !== "pending" && redeliver(base, hook, { messages: [each.id] })],
          ], page.messages, { key: each => each.id, empty: "No message matches." }),
        pages(base, query, page.next_cursor)),
    ].filter(Boolean);
  },
};

const ping = (base, hook) => action("admin", "Ping", {
  title: "Send a test message?",
  sentences: ["The platform sends an event push.webhook.ping.v1 to " + hook.url + ". The list of messages shows what came of it."],
  yes: "Send the test message",
  perform: async request => "Sent as " + (await request("POST", base + "/ping")).message + ".",
});

const enable = (base, hook) => action("admin", "Enable", {
  title: "Enable this webhook?",
  sentences: ["The platform sends events to " + hook.url + " again, also those that wait."],
  yes: "Enable",
  perform: async request => {
    await request("PATCH", base, { body: { enabled: true } });
    return "Enabled.";
  },
});

const redeliver = (base, hook, body) => {
  const words = body.failed ? "every message that was given up" : "message " + body.messages[0];
  return action("admin", body.failed ? "Redeliver what was given up" : "Redeliver", {
    title: "Send again?",
    sentences: [
      "The platform sends " + words + " to " + hook.url + " again, under the same id.",
      "A receiver that remembers ids passes over a message that it had.",
    ],
    yes: "Send again",
    perform: async request => {
      let sum = 0, answer;
      do {
        answer = await request("POST", base + "/redeliver", { body });
        sum += answer.redelivered;
        // Of messages that were given up, the service takes at most so many in a call.
      } while (body.failed && answer.redelivered >= 1000);
      return plural(sum, "message") + " will be sent again.";
    },
  }, body.failed ? null : words);
};
