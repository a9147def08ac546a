import HTTPTypes
import Hummingbird

/// `GET /`: every device with its lock screen, for a browser; it follows the feed of arrivals. One document without anything from elsewhere.
enum ControlPage {
    static var response: Response {
        Response(
            status: .ok,
            headers: [
                .contentType: "text/html; charset=utf-8", .cacheControl: "no-store",
                .contentSecurityPolicy: "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'",
            ], body: ResponseBody(byteBuffer: ByteBuffer(string: html)))
    }

    private static let html = """
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width">
        <title>APNs simulator</title>
        <style>
        body { font: 15px/1.4 system-ui, sans-serif; margin: 2rem; background: #f2f2f7; color: #1c1c1e }
        main { display: flex; flex-wrap: wrap; gap: 1.5rem }
        section { width: 19rem; min-height: 24rem; padding: 1rem; border-radius: 2rem; background: #1c1c1e; color: #fff }
        section.gone { opacity: .5 }
        section.off { outline: .3rem solid #ff9f0a }
        h2 { font-size: 1.05rem; margin: .2rem 0 }
        h2 i { font-style: normal; padding: 0 .5rem; border-radius: 1rem; background: #ff3b30 }
        small { color: #98989d }
        article { margin: .6rem 0; padding: .6rem .8rem; border-radius: 1rem; background: #3a3a3c }
        article.activity { background: #1d3557 }
        article.new { animation: arrive 1.5s }
        @keyframes arrive { from { background: #0a84ff } }
        article b, article p { display: block; margin: 0; overflow-wrap: anywhere }
        #feed { max-width: 60rem; padding: 0; list-style: none; font: 13px/1.6 ui-monospace, monospace; overflow-wrap: anywhere }
        </style>
        </head>
        <body>
        <h1>APNs simulator</h1>
        <p id="sums">Loading…</p>
        <main id="devices"></main>
        <h2>Arrivals</h2>
        <ul id="feed"></ul>
        <script>
        const shownDevices = 60, shownGroups = 8, shownLines = 30;
        const phones = new Map();
        const byId = id => document.getElementById(id);
        const element = (name, text, className) => {
          const made = document.createElement(name);
          if (text !== undefined) made.textContent = text;
          if (className) made.className = className;
          return made;
        };
        const read = async path => {
          const answer = await fetch(path);
          if (answer.status === 404) return null;
          if (!answer.ok) throw new Error(answer.status + " " + path);
          return answer.json();
        };
        const hint = token => "…" + token.slice(-6);
        const notification = (shown, count, isNew) => {
          const card = element("article", undefined, (shown.activity ? "activity" : "") + (isNew ? " new" : ""));
          for (const text of [shown.title, shown.subtitle]) if (text) card.append(element("b", text));
          if (shown.body) card.append(element("p", shown.body));
          if (shown.activity) card.append(element("p", shown.activity.event + " " + (shown.activity.content_state || "")));
          const facts = [shown.received_at.slice(11, 19), shown.topic, shown.push_type, shown.thread_id, count > 1 ? count + " in this group" : ""];
          card.append(element("small", facts.filter(Boolean).join(" · ")));
          return card;
        };
        const screen = (device, inbox, isNew) => {
          const isHere = device.state === "installed";
          const phone = element("section", undefined, isHere ? (device.online ? "" : "off") : "gone");
          const head = element("h2", (device.name || hint(device.token)) + " ");
          if (device.badge) head.append(element("i", device.badge));
          const facts = [device.environment, isHere ? (device.online ? "online" : "off") : device.state, hint(device.token)];
          if (device.stored) facts.push(device.stored + " waiting");
          phone.append(head, element("small", facts.join(" · ")));
          const byIdentity = new Map(inbox.notifications.map(shown => [shown.apns_id, shown]));
          const groups = inbox.groups.slice().reverse();
          for (const [index, group] of groups.slice(0, shownGroups).entries()) {
            const newest = byIdentity.get(group.newest_apns_id);
            if (newest) phone.append(notification(newest, group.count, isNew && index === 0));
          }
          if (groups.length > shownGroups) phone.append(element("small", "and " + (groups.length - shownGroups) + " more groups"));
          return phone;
        };
        const refresh = async (token, isNew) => {
          const device = await read("v1/devices/" + token), inbox = device && await read("v1/devices/" + token + "/inbox");
          const old = phones.get(token);
          if (!device || !inbox) {
            if (old) old.remove();
            phones.delete(token);
            return;
          }
          if (!old && phones.size >= shownDevices) return;
          const phone = screen(device, inbox, isNew);
          if (old) old.replaceWith(phone); else byId("devices").append(phone);
          phones.set(token, phone);
        };
        const sums = async () => {
          const counters = await read("v1/counters"), scenario = await read("v1/scenario");
          byId("sums").textContent = counters.requests + " requests, " + counters.accepted + " accepted, " + counters.connections.open
            + " connections, " + phones.size + " devices; scenario: " + scenario.name;
        };
        const line = arrival => element("li", [arrival.time.slice(11, 23), arrival.kind, arrival.name || hint(arrival.token), arrival.topic,
          arrival.title, arrival.body].filter(Boolean).join("  "));
        const begin = async () => {
          phones.clear();
          byId("devices").replaceChildren();
          const last = (await read("v1/arrivals?limit=1")).last_sequence;
          for (const device of (await read("v1/devices")).devices.slice(0, shownDevices)) await refresh(device.token, false);
          return last;
        };
        const follow = async () => {
          let last = null;
          for (;;) {
            try {
              if (last === null) last = await begin();
              await sums();
              // Answered by the next arrival, or after five seconds, so that the sums go on.
              const page = await read("v1/arrivals?after=" + last + "&limit=500&wait_count=1&timeout_seconds=5");
              if (page.last_sequence < last) { last = null; continue; }
              const changed = new Map();
              for (const arrival of page.arrivals) {
                last = arrival.sequence;
                changed.set(arrival.token, changed.get(arrival.token) || arrival.kind === "shown");
                if (arrival.kind !== "device") byId("feed").prepend(line(arrival));
              }
              while (byId("feed").children.length > shownLines) byId("feed").lastChild.remove();
              for (const [token, isNew] of changed) await refresh(token, isNew);
            } catch (problem) {
              byId("sums").textContent = "No answer from the simulator: " + problem.message;
              last = null;
              await new Promise(done => setTimeout(done, 1000));
            }
          }
        };
        follow();
        </script>
        </body>
        </html>
        """
}
