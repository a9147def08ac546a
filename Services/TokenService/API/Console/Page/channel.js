// One broadcast channel: its state at Apple, and how many Live Activities follow it.

import { lacking } from "./ask.js";
import { code, element, facts, note } from "./dom.js";
import { channelBadge, count, remove } from "./channels.js";
import { hash, path } from "./paths.js";
import { moment } from "./words.js";

const meanings = {
  creating: "Apple has not answered yet. The platform goes on by itself.",
  open: "It exists at Apple.",
  deleting: "Apple is still to delete it. The platform goes on by itself.",
  failed: "Apple refused to create it. Remove the cause, then create it again.",
  lost: "It was open, and Apple does not have it any more. Delete it, then create it again: the new one has another id.",
};

const storages = { none: "none: APNs keeps nothing", latest: "latest: APNs keeps the newest broadcast" };

export const channel = {
  scopes: ["read"],
  title: ({ name }) => "Channel " + name,

  // A channel that was deleted is no fault of the page.
  load: ({ app, name }, read) => read(path`/apps/${app}/channels/${name}`).catch(problem => {
    if (problem.status === 404) return null;
    throw problem;
  }),

  show: (found, { app }) => [
    element("p", {}, element("a", { href: hash(path`/apps/${app}/channels`) }, "All channels of ", app)),
    ...found ? [
      facts([
        ["Name", found.name], ["State", [channelBadge(found.state), " ", meanings[found.state]]],
        ["Reason", found.reason && code(found.reason)],
        ["Live Activities that follow it", count(found.followers)], ["Environment", found.environment],
        ["Storage", storages[found.storage]], ["Apple's id", found.channel_id && code(found.channel_id)],
        ["Created", moment(found.created_at)], ["Changed", moment(found.changed_at)],
      ]),
      found.state !== "deleting" && element("div", { class: "actions" }, remove(app, found), lacking("send", "To delete it")),
    ] : [note("The app has no channel of this name.")],
  ].filter(Boolean),
};
