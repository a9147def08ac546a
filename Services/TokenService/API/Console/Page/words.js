// How figures, times and names are written.

import { code, element } from "./dom.js";

export const number = count => count.toLocaleString("en");
export const plural = (count, word, words = word + "s") => number(count) + " " + (count === 1 ? word : words);
export const percent = share => (share > 0 && share < 1 ? Math.min(99.9, Math.max(0.1, share * 100)).toFixed(1) : share * 100) + " %";

export const seconds = count => {
  if (count < 10) return count.toFixed(1) + " s";
  if (count < 120) return Math.round(count) + " s";
  if (count < 7200) return Math.round(count / 60) + " min";
  return Math.round(count / 3600) + " h";
};

const clock = date => date.toLocaleTimeString("en-GB");

// In the reader's time zone; the title has the API's own words.
export const moment = text => {
  if (!text) return null;
  const date = new Date(text);
  const isToday = date.toDateString() === new Date().toDateString();
  const day = isToday ? "" : date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" }) + " ";
  return element("time", { datetime: text, title: text }, day + clock(date));
};

export const now = () => clock(new Date());

const ofActivity = ({ activity }, owner) => activity ? ["activity ", code(activity), " of ", owner] : owner;

// The people or devices that a notification is meant for.
export const audience = to => ({
  user: () => ofActivity(to, to.user),
  users: () => plural(to.count, "user"),
  installation: () => ofActivity(to, code(to.installation)),
  installations: () => plural(to.count, "installation"),
  tokens: () => plural(to.count, "token"),
  tags: () => code(to.tags),
  all: () => "every installation",
  channel: () => ["channel ", code(to.channel)],
  channel_and_activities: () => ["channel ", code(to.channel), " and its update tokens"],
}[to.kind]?.() ?? to.kind);
