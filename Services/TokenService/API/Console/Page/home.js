// The first view: an administrator sees every app, another key its own.

import { chart, rate } from "./chart.js";
import { badge, element, note } from "./dom.js";
import { form, labelled, text } from "./forms.js";
import { go, hash, path } from "./paths.js";
import { everyScope, may, mayAdminister } from "./session.js";

// Each of these costs a request at every refresh.
const followedApps = 24;

export const home = {
  title: () => mayAdminister() ? "Apps" : "Choose an app",

  load: async (at, read) => {
    if (!mayAdminister()) return [];
    const { apps } = await read("/admin/apps");
    const found = [];
    for (const [index, app] of apps.entries()) {
      const minutes = may("read") && index < followedApps ? (await read(path`/apps/${app.slug}/activity`)).minutes : null;
      found.push({ app, minutes });
    }
    return found;
  },

  show: found => mayAdminister() ? overview(found) : [
    note("This key may use every app, and may not list them."),
    form("Open an app", [labelled("App", text("app", "", { required: true }))], "Open", ({ app }) => go(path`/apps/${app}`)),
  ],
};

const overview = found => [
  found.length === 0 && note("There is no app yet: make one with pushctl apps create."),
  !may("read") && note("Rates and outcomes need the scope read, which this key does not have. " + everyScope),
  element("ul", { class: "cards", role: "list" }, found.map(({ app, minutes }) => element(
    "li", { class: "card", key: app.slug },
    element("h2", {}, element("a", { href: hash(path`/apps/${app.slug}`) }, app.slug)),
    element("p", { class: "small" }, app.bundle_id, " ", app.environments.map(name => badge(name))),
    minutes && element("p", {}, element("b", {}, rate(minutes)), " outcomes a second in the last minute"),
    minutes && chart(app.slug, minutes, { isSmall: true })))),
].filter(Boolean);
