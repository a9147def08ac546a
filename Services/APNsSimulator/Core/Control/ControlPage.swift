import HTTPTypes
import Hummingbird

/// `GET /`: every device with its lock screen, for a browser. One document without anything from elsewhere.
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
        h2 { font-size: 1.05rem; margin: .2rem 0 }
        small { color: #98989d }
        article { margin: .6rem 0; padding: .6rem .8rem; border-radius: 1rem; background: #3a3a3c }
        article b, article p { display: block; margin: 0; overflow-wrap: anywhere }
        </style>
        </head>
        <body>
        <h1>APNs simulator</h1>
        <p id="sums">Loading…</p>
        <main id="devices"></main>
        <script>
        const shownDevices = 60, shownNotifications = 12;
        const element = (name, text, className) => {
          const made = document.createElement(name);
          if (text !== undefined) made.textContent = text;
          if (className) made.className = className;
          return made;
        };
        const read = async path => {
          const answer = await fetch(path);
          if (!answer.ok) throw new Error(answer.status + " " + path);
          return answer.json();
        };
        const notification = shown => {
          const card = element("article");
          if (shown.title) card.append(element("b", shown.title));
          if (shown.subtitle) card.append(element("b", shown.subtitle));
          if (shown.body) card.append(element("p", shown.body));
          card.append(element("small", [shown.received_at.slice(11, 19), shown.topic, shown.push_type].filter(Boolean).join(" · ")));
          return card;
        };
        const screen = async device => {
          const inbox = (await read("v1/devices/" + device.token + "/inbox")).notifications.reverse();
          const phone = element("section", undefined, device.state === "installed" ? "" : "gone");
          phone.append(element("h2", (device.name || "…" + device.token.slice(-6)) + (device.badge ? "  (" + device.badge + ")" : "")));
          phone.append(element("small", [device.environment, device.state, "…" + device.token.slice(-6)].join(" · ")));
          phone.append(...inbox.slice(0, shownNotifications).map(notification));
          if (inbox.length > shownNotifications) phone.append(element("small", "and " + (inbox.length - shownNotifications) + " more"));
          return phone;
        };
        const refresh = async () => {
          const sums = document.getElementById("sums");
          try {
            const counters = await read("v1/counters"), devices = (await read("v1/devices")).devices;
            const phones = await Promise.all(devices.slice(0, shownDevices).map(screen));
            document.getElementById("devices").replaceChildren(...phones);
            sums.textContent = counters.requests + " requests, " + counters.accepted + " accepted, " + counters.connections.open
              + " connections, " + devices.length + " devices" + (devices.length > shownDevices ? " (the first " + shownDevices + ")" : "");
          } catch (problem) {
            sums.textContent = "No answer from the simulator: " + problem.message;
          }
          setTimeout(refresh, 1000);
        };
        refresh();
        </script>
        </body>
        </html>
        """
}
