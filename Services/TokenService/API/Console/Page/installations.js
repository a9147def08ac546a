// Finding installations: by state and tag, by user, by token, by id.

import { request } from "./api.js";
import { action, lacking, pendingFence } from "./ask.js";
import { badge, byId, code, element, note, section } from "./dom.js";
import { problemLines } from "./follow.js";
import { anyOf, choice, form, labelled, text } from "./forms.js";
import { go, hash, path } from "./paths.js";
import { may } from "./session.js";
import { pages, table } from "./table.js";
import { moment, plural } from "./words.js";

const states = ["signed_in", "signed_out", "throttled", "stale", "unreachable"];

export const link = (app, id) => element("a", { href: hash(path`/apps/${app}/installations/${id}`) }, code(id));
export const userLink = (app, user) => user && element("a", { href: hash(path`/apps/${app}/users/${user}`) }, user);

export const installations = {
  section: "Installations",
  scopes: ["read", "devices"],
  title: () => "Installations",
  load: ({ app, query }, read) => read(path`/apps/${app}/installations`, { limit: 50, ...query }),

  show: ({ installations: found, next_cursor: next }, { app, query }) => {
    const base = path`/apps/${app}/installations`;
    return [
      element(
        "div", { class: "finders" },
        finder("User", "Find the user", name => go(path`/apps/${app}/users/${name}`)),
        finder("Installation", "Open the installation", id => go(path`/apps/${app}/installations/${id}`)),
        finder("Device token", "Find the token", token => search(app, token)),
        form(
          "Which installations", [
            labelled("State", choice("state", anyOf(states), query.state)), labelled("Tag", text("tag", query.tag)),
          ], "Show", chosen => go(base, chosen))),
      holders(app),
      installationTable(app, "Installations of " + app, found),
      pages(base, query, next),
    ].filter(Boolean);
  },
};

const finder = (words, button, find) =>
  form(button, [labelled(words, text("sought", "", { required: true }))], button, ({ sought }) => find(sought));

// What the last search for a token found. A token is not written into the address: a browser keeps addresses.
let found = null;

export const forgetToken = () => {
  found = null;
};

const search = async (app, token) => {
  found = null;
  try {
    found = await request("POST", path`/apps/${app}/tokens/search`, { body: { token } });
    byId("holders").replaceWith(holders(app));
    byId("holders").focus();
  } catch (problem) {
    byId("failed").replaceChildren(...problemLines(problem));
  }
};

const holders = app => {
  const attributes = { id: "holders", key: "holders", tabindex: "-1" };
  if (!found) return element("div", attributes);
  return element(
    "div", attributes,
    section(
      "Who has the token", installationTable(app, "Installations with this token", found.installations),
      table(
        "Installations that had it before",
        [
          ["Installation", each => link(app, each.id), "wide"],
          ["Environment", each => each.environment], ["Purpose", each => each.purpose], ["Until", each => moment(each.until)],
          ["Because", each => each.reason.replaceAll("_", " ")], ["Went to", each => each.moved_to && link(app, each.moved_to)],
        ], found.former_holders, { empty: "No other installation had it." })));
};

const installationTable = (app, caption, rows) => table(
  caption,
  [
    ["Installation", each => link(app, each.id), "wide"],
    ["User", each => userLink(app, each.user) ?? badge("signed out")],
    ["Tokens", each => each.tokens.filter(token => token.state === "active").map(token => code(token.hint)).flatMap(hint => [hint, " "])],
    ["Device", each => [each.device_model, each.os_version].filter(Boolean).join(" ")],
    ["App version", each => each.app_version],
    ["Registered", each => moment(each.registered_at)],
  ], rows, { key: each => each.id, empty: "No installation matches." });

export const user = {
  scopes: ["read", "devices"],
  title: ({ user: name }) => "User " + name,
  load: ({ app, user: name, query }, read) => read(path`/apps/${app}/users/${name}/installations`, { limit: 50, ...query }),

  show: ({ installations: rows, next_cursor: next }, { app, user: name, query }) => [
    element(
      "div", { class: "actions" },
      element("a", { href: hash(path`/apps/${app}/notifications`, { user: name }) }, "Notifications of this user"),
      may("read") && element("a", { href: hash(path`/apps/${app}/activities`, { user: name }) }, "Live Activities of this user"),
      rows.length > 0 && logOutEverywhere(app, name), rows.length > 0 && lacking("devices", "To log the user out")),
    rows.length === 0 && note("The user is signed in nowhere."),
    installationTable(app, "Where the user is signed in", rows),
    pages(path`/apps/${app}/users/${name}`, query, next),
  ].filter(Boolean),
};

const logOutEverywhere = (app, name) => action("devices", "Log the user out everywhere", {
  title: "Log the user out everywhere?",
  sentences: [
    "The platform signs " + name + " out on every installation of " + app + ".",
    "It sends nothing more there to this user, also nothing that it has accepted. Each device must register again.",
  ],
  yes: "Log out everywhere",
  perform: async request => {
    const answer = await request("POST", path`/apps/${app}/users/${name}/logout`, { body: {} });
    return "Signed out on " + plural(answer.signed_out, "installation") + "." + pendingFence(answer);
  },
});
