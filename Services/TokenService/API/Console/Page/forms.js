// Forms that lead to a place of this page.

import { element } from "./dom.js";

export const labelled = (words, control) => element("label", { class: "field" }, element("span", {}, words), control);

// - type "password" hides what is typed from those who look on.
export const text = (name, value, attributes = {}) =>
  element("input", { name, type: "text", value, autocomplete: "off", spellcheck: "false", autocapitalize: "off", ...attributes });

// - choices: [value, words].
export const choice = (name, choices, chosen) => element(
  "select", { name }, choices.map(([value, words]) => element("option", { value, selected: value === (chosen ?? "") }, words)));

export const anyOf = values => [["", "any"], ...values.map(value => [value, value.replaceAll("_", " ")])];

export const form = (label, fields, button, submit) => element(
  "form",
  {
    class: "tools", "aria-label": label,
    onsubmit: event => {
      event.preventDefault();
      submit(Object.fromEntries([...new FormData(event.target)].map(([name, value]) => [name, value.trim()])), event.target);
    },
  },
  fields, element("button", { type: "submit" }, button));
