// Shows one view and reads it again every few seconds, while the tab is visible and the reader has not paused it. A view that is still is
// read again on demand alone.

import { byId, element, write } from "./dom.js";
import { render } from "./render.js";
import { now } from "./words.js";

const interval = 3000;
let shown = new AbortController(), isPaused = false, isOutdated = false, endRest = () => {};

const mayRead = () => !isPaused && !document.hidden;

// A service that answers slowly is asked less often: a rest takes at least four times as long as the reading.
const rest = milliseconds => new Promise(done => {
  let isOver = false;
  const timer = milliseconds !== null && setTimeout(() => {
    isOver = true;
    if (mayRead()) done();
  }, milliseconds);
  endRest = isAsked => {
    if (!isAsked && !(isOver && mayRead())) return;
    clearTimeout(timer);
    done();
  };
});

// Reads the shown view now, because an action has changed what it shows.
export const refresh = () => {
  isOutdated = true;
  endRest(true);
};

export const stop = () => {
  shown.abort();
  endRest(true);
  byId("freshness").hidden = true;
};

export const problemLines = problem => [
  element("strong", {}, (problem.title || "The console has a fault") + ": "), element("span", {}, problem.detail || problem.message),
  problem.errors?.length > 0
    && element("ul", {}, problem.errors.map(error => element("li", {}, element("code", {}, error.pointer), " " + error.detail))),
].filter(Boolean);

const labelButton = isStill => write(byId("pause"), isStill ? "Read again" : isPaused ? "Continue" : "Pause");

// - read: asks for what the view shows, with a signal that ends it. - show: makes nodes of the answer. - refused: told of each failure.
export const follow = async (read, show, refused, isStill) => {
  stop();
  labelButton(isStill);
  byId("pause").onclick = () => {
    if (isStill) return refresh();
    isPaused = !isPaused;
    labelButton();
    endRest(false);
  };
  const { signal } = shown = new AbortController();
  byId("view").replaceChildren(element("p", { class: "note" }, "Loading …"));
  byId("trouble").replaceChildren();
  let isFirst = true;
  while (!signal.aborted) {
    const began = performance.now();
    isOutdated = false;
    let hasFailed = false;
    try {
      const answer = await read(signal);
      if (signal.aborted) return;
      const nodes = show(answer);
      if (isFirst) byId("view").replaceChildren(...nodes); else render(byId("view"), nodes);
      isFirst = false;
      byId("trouble").replaceChildren();
      write(byId("updated"), "Updated " + now());
      byId("freshness").hidden = false;
    } catch (problem) {
      if (signal.aborted || refused(problem)) return;
      hasFailed = true;
      if (isFirst) byId("view").replaceChildren();
      render(byId("trouble"), problemLines(problem));
    }
    if (!isOutdated) await rest(isStill && !hasFailed ? null : Math.max(interval, 4 * (performance.now() - began)));
  }
};

document.addEventListener("visibilitychange", () => endRest(false));
