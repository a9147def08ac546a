// The places of this page. They are behind the hash, so that back, forward and bookmarks work.

import { activity } from "./activity.js";
import { audit } from "./audit.js";
import { channel } from "./channel.js";
import { channels } from "./channels.js";
import { deadLetter, deadLetters } from "./dead-letters.js";
import { everyHold, holds } from "./holds.js";
import { home } from "./home.js";
import { installation } from "./installation.js";
import { installations, user } from "./installations.js";
import { liveActivities } from "./live-activities.js";
import { liveActivity } from "./live-activity.js";
import { notification } from "./notification.js";
import { notifications } from "./notifications.js";
import { quarantine } from "./quarantine.js";
import { may, mayAdminister } from "./session.js";
import { webhook, webhooks } from "./webhooks.js";
import { why } from "./why.js";

const routes = [
  ["/", home],
  ["/apps/:app", activity],
  ["/apps/:app/notifications", notifications],
  ["/apps/:app/notifications/:id", notification],
  ["/apps/:app/notifications/:id/why", why],
  ["/apps/:app/activities", liveActivities],
  ["/apps/:app/activities/:id", liveActivity],
  ["/apps/:app/channels", channels],
  ["/apps/:app/channels/:name", channel],
  ["/apps/:app/installations", installations],
  ["/apps/:app/installations/:id", installation],
  ["/apps/:app/users/:user", user],
  ["/apps/:app/holds", holds],
  ["/apps/:app/quarantine", quarantine],
  ["/apps/:app/webhooks", webhooks],
  ["/apps/:app/webhooks/:id", webhook],
  ["/holds", everyHold],
  ["/dead-letters", deadLetters],
  ["/dead-letters/:id", deadLetter],
  ["/audit", audit],
];

const values = (pattern, parts) => {
  const names = pattern.split("/");
  if (names.length !== parts.length) return null;
  const found = {};
  for (const [index, name] of names.entries()) {
    if (name.startsWith(":") && parts[index] !== "") found[name.slice(1)] = parts[index];
    else if (name !== parts[index]) return null;
  }
  return found;
};

// The view of a hash and its values; null where there is none.
export const match = hash => {
  const [place, search = ""] = (hash.slice(1) || "/").split(/\?(.*)/s);
  let parts;
  try {
    parts = place.split("/").map(decodeURIComponent);
  } catch {
    return null;
  }
  // A browser takes these out of the path of a request, which would then be another one.
  if (parts.includes(".") || parts.includes("..")) return null;
  for (const [pattern, view] of routes) {
    const found = values(pattern, parts);
    if (found) return { view, at: { ...found, place, query: Object.fromEntries(new URLSearchParams(search)) } };
  }
  return null;
};

export const allows = view => view.isAdministrative ? mayAdminister() : !view.scopes || may(...view.scopes);

// What the menu leads to: views without values of their own, of this app or of every app.
export const sections = app => routes
  .filter(([, view]) => view.section && allows(view) && (view.isAdministrative || app !== undefined))
  .map(([pattern, view]) => ({ view, place: pattern.replace(":app", encodeURIComponent(app ?? "")) }));
