// Broadcast channels, beside the devices.

import { byId, element, label, number, plural, read, write } from "./dom.js";

const shownChannels = 12, shownFollowers = 5;

const channel = found => {
  const missed = found.followers.reduce((sum, follower) => sum + follower.missed, 0);
  const facts = [
    found.bundle_id, found.environment, found.stores ? "keeps the newest" : "keeps nothing", number(found.published) + " published",
    plural(found.receptions, "reception"), missed > 0 && number(missed) + " missed",
  ];
  const others = found.subscribers - found.followers.length + found.anonymous;
  const names = found.followers.map(follower => label(follower) + (follower.online ? "" : " (off)"));
  if (others > 0) names.push(number(others) + (names.length > 0 ? " more" : " without a device"));
  return element(
    "li", {}, element("strong", {}, found.channel_id), element("p", { class: "small" }, facts.filter(Boolean).join(" · ")),
    element("p", {}, plural(found.subscribers + found.anonymous, "follower") + (names.length > 0 ? ": " + names.join(", ") : "")));
};

let writtenChannels = "";

export const refreshChannels = async () => {
  const { total, channels } = await read("v1/channels?limit=" + shownChannels + "&followers=" + shownFollowers);
  const written = JSON.stringify([total, channels]);
  if (written === writtenChannels) return;
  writtenChannels = written;
  byId("channels").hidden = total === 0;
  byId("channel-list").replaceChildren(...channels.map(channel));
  byId("more-channels").hidden = total <= channels.length;
  write(byId("more-channels"), "and " + plural(total - channels.length, "more channel"));
};
