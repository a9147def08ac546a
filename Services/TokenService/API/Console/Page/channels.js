// The broadcast channels of an app, those of other programs too.

import { action } from "./ask.js";
import { badge, code, element, note } from "./dom.js";
import { anyOf, choice, form, labelled } from "./forms.js";
import { go, hash, path } from "./paths.js";
import { may } from "./session.js";
import { pages, table } from "./table.js";
import { moment, number } from "./words.js";

const kinds = { creating: "busy", open: "good", deleting: "busy", failed: "bad", foreign: "plain", lost: "bad" };

export const channelBadge = state => badge(state, kinds[state]);

export const channels = {
  section: "Channels",
  scopes: ["read"],
  title: () => "Channels",
  load: ({ app, query }, read) => read(path`/apps/${app}/channels`, { limit: 50, ...query }),

  show: ({ channels: found, next_cursor: next }, { app, query }) => {
    const base = path`/apps/${app}/channels`;
    return [
      note(
        "A broadcast to a channel reaches every Live Activity that follows it. ",
        "Apple allows 10,000 channels for an app in each environment."),
      form("Which channels", [
        labelled("State", choice("state", anyOf(Object.keys(kinds)), query.state)),
        labelled("Environment", choice("environment", anyOf(["production", "sandbox"]), query.environment)),
      ], "Show", chosen => go(base, chosen)),
      table(
        "Channels of " + app + ", the oldest first",
        [
          ["Name", ({ name }) => name === null ? "no name" : element("a", { href: hash(base + path`/${name}`) }, name), "wide"],
          ["State", each => channelBadge(each.state)],
          ["Reason", each => each.reason && code(each.reason)],
          ["Environment", each => each.environment],
          ["Storage", each => each.storage],
          ["Apple's id", each => each.channel_id && code(each.channel_id)],
          ["Changed", each => moment(each.changed_at)],
          ...may("send") ? [["Action", each => each.state === "foreign" && remove(app, each)]] : [],
        ], found, { key: each => [each.environment, each.name, each.channel_id].join(" "), empty: "No channel matches." }),
      pages(base, query, next),
    ].filter(Boolean);
  },
};

// The service counts the Live Activities that follow a channel no further than this.
export const count = followers => number(followers) + (followers < 10_000 ? "" : " or more");

// A foreign channel has no name. The service refuses to delete a channel that Live Activities follow, unless the request says so.
export const remove = (app, { name, channel_id: id, environment, followers }) => {
  const words = name === null ? "the channel " + id : "the channel " + name;
  return action("send", "Delete", {
    title: "Delete this channel?",
    sentences: [
      "The platform deletes " + words + " of " + app + " in " + environment + ", here and at Apple.",
      ...followers > 0 ? [count(followers) + (followers === 1 ? " Live Activity follows" : " Live Activities follow") + " it and get no more updates."] : [],
      "Apple never gives its id again. This cannot be undone.",
    ],
    yes: "Delete the channel",
    perform: async request => {
      const answer = await (name === null
        ? request("DELETE", path`/apps/${app}/channels`, { query: { channel_id: id, environment } })
        : request("DELETE", path`/apps/${app}/channels/${name}`, { query: { force: followers > 0 || null } }));
      return answer ? "Apple has not deleted it yet. The platform goes on by itself." : "Deleted.";
    },
  }, words);
};
