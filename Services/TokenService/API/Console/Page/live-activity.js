// One Live Activity: its owner, its times, its newest state, and its end.

import { action, lacking } from "./ask.js";
import { badge, code, element, facts } from "./dom.js";
import { activityBadge, owner, ownerOf } from "./live-activities.js";
import { notificationLink } from "./notifications.js";
import { hash, path } from "./paths.js";
import { moment } from "./words.js";

const isOver = ({ state }) => state === "ended" || state === "dismissed";

export const liveActivity = {
  scopes: ["read"],
  title: ({ id }) => "Live Activity " + id,
  load: ({ app, id, query }, read) => read(path`/apps/${app}/activities/${id}`, query),

  show: (activity, { app }) => [
    facts([
      ["Id", code(activity.id)], ["State", activityBadge(activity.state)], ["Owner", owner(app, activity)],
      ["Type", activity.attributes_type],
      ["Channel", activity.channel && element("a", { href: hash(path`/apps/${app}/channels/${activity.channel}`) }, activity.channel)], ["Started", moment(activity.started_at)],
      ["Update token reported", moment(activity.reported_at) ?? (activity.state === "starting" && "not yet")],
      [isOver(activity) ? "Ended" : "Ends by itself", moment(activity.ends_at)], ["Stale from", moment(activity.stale_at)],
      ["Off the lock screen from", moment(activity.dismissed_at)],
      ["Newest state", activity.newest && notificationLink(app, activity.newest)],
      ["Its timestamp", activity.newest_timestamp !== null && moment(timeOf(activity.newest_timestamp))],
      ["The newest state waits", activity.waiting ? [badge("yes", "busy"), " ", reason(activity)] : "no"],
      ["Frequent updates", activity.frequent_updates ? "the person allows them" : "no"],
    ]),
    element(
      "div", { class: "actions" },
      activity.user && activity.newest && element(
        "a", { href: hash(path`/apps/${app}/notifications/${activity.newest}/why`, { user: activity.user }) },
        "Why the newest state arrived, or did not"),
      activity.user && element("a", { href: hash(path`/apps/${app}/notifications`, { user: activity.user }) }, "Notifications of its user"),
      // A device ignores what comes after the end.
      !isOver(activity) && [end(app, activity), remove(app, activity), lacking("send", "To end it")]),
  ],
};

const timeOf = seconds => new Date(seconds * 1000).toISOString();

const reason = ({ reported_at: reported }) =>
  reported === null ? "for an update token" : "for the update before it, or for the end of the app's window";

const end = (app, activity) => action("send", "End", {
  title: "End this Live Activity?",
  sentences: [...meaning(app, activity), "Its last state stays on the lock screen for up to four hours."],
  yes: "End it",
  perform: request => send(request, app, activity),
});

const remove = (app, activity) => action("send", "Remove from the lock screen", {
  title: "Remove this Live Activity from the lock screen?",
  sentences: [...meaning(app, activity), "It disappears from the lock screen at once."],
  yes: "Remove it",
  // A day ago: the clock here may be ahead of the one of the device.
  perform: request => send(request, app, activity, { dismissal_date: timeOf(Date.now() / 1000 - 86400) }),
});

const meaning = (app, activity) => [
  "The platform ends " + activity.id + " of " + app + " on every device of " + (activity.user ?? "installation " + activity.installation)
    + ". No later update changes it.",
  ...activity.reported_at === null ? ["No device has reported an update token. The end waits for one until it expires."] : [],
];

// Platform and devices ignore a state with an older timestamp than the newest one, and a backend's timestamps may be ahead.
const send = async (request, app, activity, more = {}) => {
  const { newest_timestamp: newest } = await request("GET", path`/apps/${app}/activities/${activity.id}`, { query: ownerOf(activity) });
  const timestamp = timeOf(Math.max(Math.floor(Date.now() / 1000), (newest ?? 0) + 1));
  const answer = await request(
    "POST", path`/apps/${app}/notifications`,
    { body: { to: { ...ownerOf(activity), activity: activity.id }, priority: 10, content: { event: "end", timestamp, ...more } } });
  return answer.state === "no_targets" ? "No device has it any more. Nothing was sent." : "Accepted as notification " + answer.id + ".";
};
