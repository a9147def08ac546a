import Observability

/// The settings of `apns-simulator`, as people read them: `--help` prints this table, and the README's is compared with it.
package struct SimulatorSetting: Sendable {
    /// As swift-configuration reads it: `production.port` is the environment variable PRODUCTION_PORT.
    package let key: String
    package let fallback: String
    package let meaning: String

    package var variable: String { ConfigurationError.variable(key) }

    private init(_ key: String, _ fallback: String, _ meaning: String) {
        self.key = key
        self.fallback = fallback
        self.meaning = meaning
    }

    package static let all = [
        SimulatorSetting("host", "127.0.0.1", "where all ports listen"),
        SimulatorSetting("production.port", "2197", "APNs, production; 0 takes any free port, which the log names"),
        SimulatorSetting("sandbox.port", "2198", "APNs, sandbox"),
        SimulatorSetting("production.management.port", "0", "broadcast channels, production (Apple: 2196); 0 takes any free port"),
        SimulatorSetting("sandbox.management.port", "0", "broadcast channels, sandbox (Apple: 2195); 0 takes any free port"),
        SimulatorSetting("control.port", "2199", "the control API and the page that shows the devices"),
        SimulatorSetting("tls.certificate.file", "(required)", "PEM: the server's certificate and its chain"),
        SimulatorSetting("tls.key.file", "(required)", "PEM: the certificate's private key"),
        SimulatorSetting("keys.file", "(required)", "JSON: whose provider tokens are good, see below"),
        SimulatorSetting(
            "client.ca.file", "(none)",
            "PEM: clients are asked for a certificate, and one by these authorities is as good as provider tokens"),
        SimulatorSetting("scenario", "calm", "what goes wrong from the start, by name: apns-simulator scenarios lists them"),
        SimulatorSetting("scenario.file", "(none)", "the same from a file of your own, instead of a name"),
        SimulatorSetting(
            "connections", "10000", "connections open at once, on all ports together; one more is closed as soon as it is accepted"),
        SimulatorSetting("streams", "1000", "MAX_CONCURRENT_STREAMS once a connection is authenticated"),
        SimulatorSetting("stream.gate", "on", "one stream until a request with a valid token was seen; on or off"),
        SimulatorSetting("stream.penalty", "on", "one stream after a 4xx (410 excepted) until a push is accepted; on or off"),
        SimulatorSetting(
            "rejection.limit", "0", "so many 4xx in a row (410 excepted) end a connection with GOAWAY; 0 for never"),
        SimulatorSetting("idle.timeout.seconds", "7200", "a connection that says nothing for so long gets GOAWAY IdleTimeout; 0 for never"),
        SimulatorSetting("unknown.devices", "accept", "pushes to tokens that nobody installed: accept, or reject with BadDeviceToken"),
        SimulatorSetting(
            "requests.per.second", "0", "what the server takes; more are answered 503 ServiceUnavailable; 0 for any number"),
        SimulatorSetting("journal.capacity", "200000", "requests that the journal keeps"),
        SimulatorSetting("journal.file", "(none)", "every request is written here too; `apns-simulator journal FILE` reads it"),
        SimulatorSetting("threads", "1", "event loops"),
        SimulatorSetting("log.level", "info", "debug writes a line per push"),
    ]

    /// The table in columns, as wide as a terminal is that says nothing about itself.
    package static var help: String {
        let width = all.map(\.variable.count).max() ?? 0
        let second = all.map(\.fallback.count).max() ?? 0
        let indent = 2 + width + 2 + second + 2
        let rows = all.map { setting in
            let (name, fallback) = (setting.variable, setting.fallback)
            let lead =
                "  " + name + String(repeating: " ", count: width - name.count + 2) + fallback
                + String(repeating: " ", count: second - fallback.count + 2)
            let lines = wrapped(setting.meaning, to: columns - indent)
            return lead + lines.joined(separator: "\n" + String(repeating: " ", count: indent))
        }
        return "Settings are environment variables:\n\n" + rows.joined(separator: "\n") + "\n\n" + KeysFile.help
    }

    /// One less than 80: what fills a line to its end is broken again.
    private static let columns = 79

    private static func wrapped(_ text: String, to width: Int) -> [String] {
        text.split(separator: " ").reduce(into: [String]()) { lines, word in
            if let last = lines.last, last.count + 1 + word.count <= width {
                lines[lines.count - 1] = last + " " + word
            } else {
                lines.append(String(word))
            }
        }
    }
}
