// The second question before every action, and what came of the action.

import { request, sessionSignal } from "./api.js";
import { byId, element, write } from "./dom.js";
import { problemLines, refresh } from "./follow.js";
import { may, mayAdminister } from "./session.js";

// Resolves to whether the person agreed. Cancel is the default: Enter and Escape change nothing.
const agree = (title, sentences, yes) => new Promise(done => {
  const dialog = byId("question");
  write(byId("question-title"), title);
  byId("question-text").replaceChildren(...sentences.map(sentence => element("p", {}, sentence)));
  write(byId("question-yes"), yes);
  dialog.returnValue = "";
  dialog.querySelector("form").onsubmit = event => {
    event.preventDefault();
    dialog.close();
  };
  byId("question-yes").onclick = () => dialog.close("yes");
  // The browser tells of the end later: by then the next question may be open.
  dialog.onclose = () => !dialog.open && done(dialog.returnValue === "yes");
  dialog.showModal();
});

export const forget = () => {
  byId("question").close();
  byId("failed").replaceChildren();
  write(byId("said"), "");
};

// - perform: does it with the API and returns the sentence that says what was done.
export const ask = async ({ title, sentences, yes, perform }) => {
  if (!await agree(title, sentences, yes)) return;
  forget();
  const signal = sessionSignal();
  try {
    write(byId("said"), await perform((method, path, options) => request(method, path, { ...options, signal })));
  } catch (problem) {
    if (signal.aborted) return;
    byId("failed").replaceChildren(...problemLines(problem));
  }
  refresh();
};

// A button that asks, for a key that may; nothing for others.
export const action = (scope, label, question, name) => may(scope)
  && element("button", { type: "button", "aria-label": name && label + " " + name, onclick: () => ask(question) }, label + "…");

// The same where the action is over every app.
export const administration = (label, question, name) => mayAdminister() && action("admin", label, question, name);

// Why a button is absent.
export const lacking = (scope, doing) => !may(scope)
  && element("p", { class: "note" }, doing + " needs the scope " + scope + ", which this key does not have.");

export const untilDone = async (next, add) => {
  for (;;) {
    const { done, remaining } = add(await next());
    // A round that did nothing would go on for ever.
    if (done === 0 || remaining === 0) return;
  }
};

export const pendingFence = answer => answer.fence === "pending"
  ? " The broker has not confirmed it yet; the service goes on trying." : "";
