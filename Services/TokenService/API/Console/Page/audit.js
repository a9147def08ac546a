// The audit trail: who used an administrator's rights, and who read tokens or a person's data in full.

import { code, note } from "./dom.js";
import { form, labelled, text } from "./forms.js";
import { go } from "./paths.js";
import { pages, table } from "./table.js";
import { moment, number } from "./words.js";

export const audit = {
  section: "Audit trail",
  isAdministrative: true,
  title: () => "Audit trail",
  load: ({ query }, read) => read("/admin/audit", { limit: 50, ...query }),

  show: ({ entries, next_cursor: next }, { query }) => [
    note("No entry names a user: the object of an action on a user is a digest of the name."),
    form("Filter the audit trail", [
      labelled("App", text("app", query.app ?? "")), labelled("Key's id", text("key", query.key ?? "")),
      labelled("Action", text("action", query.action ?? "", { placeholder: "key.created" })),
    ], "Show", chosen => go("/audit", chosen)),
    table(
      "What was done, the newest first",
      [
        ["Time", each => moment(each.at)], ["Action", each => each.action], ["App", each => each.app],
        ["Object", each => each.object && code(each.object), "wide"], ["Number", each => each.count && number(each.count)],
        ["By key", each => each.key ? [each.key_name, " ", code(each.key)] : "the service, from its settings", "wide"],
      ], entries, { empty: next ? "No entry on this page." : "There is no entry." }),
    pages("/audit", query, next),
  ].filter(Boolean),
};
