// Follows the simulator: one long poll for arrivals, then one look at the devices and the sums.

import { forget, note, shownLines } from "./arrivals.js";
import { refreshChannels } from "./channels.js";
import { beginTools, refresh } from "./devices.js";
import { byId, number, read, write } from "./dom.js";

const pollSeconds = 5, shownReasons = 5;

const showTrouble = problem => {
  byId("trouble").hidden = !problem;
  write(byId("trouble"), problem ? "The simulator does not answer (" + problem.message + "). Trying again every second." : "");
};

const sums = async () => {
  const [counters, scenario] = await Promise.all([read("v1/counters"), read("v1/scenario")]);
  const rejections = counters.rejections.slice().sort((one, other) => other.count - one.count);
  write(byId("requests"), number(counters.requests));
  write(byId("accepted"), number(counters.accepted));
  write(byId("rejected"), number(rejections.reduce((sum, kind) => sum + kind.count, 0)));
  write(byId("connections"), number(counters.connections.open));
  write(byId("scenario"), scenario.name);
  byId("sums").hidden = false;
  byId("reasons").hidden = rejections.length === 0;
  const kinds = rejections.slice(0, shownReasons).map(kind => kind.status + " " + (kind.reason || "") + " × " + number(kind.count));
  write(byId("reasons"), "Rejected: " + kinds.join(", ") + (rejections.length > shownReasons ? ", …" : ""));
};

const look = async () => {
  await Promise.all([refresh(), refreshChannels(), sums()]);
  showTrouble(null);
};

const follow = async () => {
  // The sequence number of the last arrival that was read, and the last one that was there when the page began.
  let last = null, history = 0;
  for (;;) {
    try {
      const began = performance.now();
      if (last === null) {
        history = (await read("v1/arrivals?limit=1")).last_sequence;
        last = Math.max(0, history - shownLines);
      }
      await look();
      // A world of many devices takes long to list: the page rests four times as long as a look takes.
      await new Promise(done => setTimeout(done, Math.max(250, 4 * (performance.now() - began))));
      const page = await read("v1/arrivals?after=" + last + "&limit=" + shownLines + "&wait_count=1&timeout_seconds=" + pollSeconds);
      if (page.last_sequence < last) {
        // Another simulator has taken the place of the one that was followed.
        forget();
        last = null;
        continue;
      }
      if (page.arrivals.length === 0) continue;
      const end = page.arrivals[page.arrivals.length - 1].sequence;
      note(page.arrivals, end <= history);
      // More came than the list holds: the older ones are passed over.
      last = Math.max(end, page.last_sequence - shownLines);
    } catch (problem) {
      showTrouble(problem);
      await new Promise(done => setTimeout(done, 1000));
    }
  }
};

beginTools(() => look().catch(showTrouble));
follow();
