// Tables with a caption and headings. On a phone each row becomes a card: the roles keep it a table for screen readers.

import { element, note } from "./dom.js";
import { hash } from "./paths.js";

// - columns: [heading, row => content, class]. The first column names the row.
export const table = (caption, columns, rows, { key, empty = "There is nothing here." } = {}) => {
  if (rows.length === 0) return note(empty);
  const head = columns.map(([heading, , kind]) => element("th", { scope: "col", role: "columnheader", class: kind }, heading));
  const body = rows.map(row => element(
    "tr", { role: "row", key: key?.(row) },
    columns.map(([heading, cell, kind], index) => element(
      index === 0 ? "th" : "td",
      { scope: index === 0 && "row", role: index === 0 ? "rowheader" : "cell", class: kind, "data-heading": heading },
      cell(row) || "–"))));
  return element(
    "table", { role: "table" }, element("caption", {}, caption),
    element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, head)), element("tbody", { role: "rowgroup" }, body));
};

// A page of a list is a place of its own: back, forward and a bookmark work.
export const pages = (base, { cursor, ...query }, next) => (cursor || next) && element(
  "nav", { class: "pages", "aria-label": "Pages" },
  cursor && element("a", { href: hash(base, query) }, "First page"),
  next && element("a", { href: hash(base, { ...query, cursor: next }) }, "Next page"));
