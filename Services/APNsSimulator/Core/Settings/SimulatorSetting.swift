package import Observability

/// The settings of `apns-simulator`, as `--help` and the handbook show them.
package enum SimulatorSetting {
    package static let all: [DocumentedSetting] = [
        DocumentedSetting("host", "127.0.0.1", "where all ports listen"),
        DocumentedSetting("production.port", "2197", "APNs, production; 0 takes any free port, which the log names"),
        DocumentedSetting("sandbox.port", "2198", "APNs, sandbox"),
        DocumentedSetting("production.management.port", "0", "broadcast channels, production (Apple: 2196); 0 takes any free port"),
        DocumentedSetting("sandbox.management.port", "0", "broadcast channels, sandbox (Apple: 2195); 0 takes any free port"),
        DocumentedSetting("control.port", "2199", "the control API and the page that shows the devices"),
        DocumentedSetting("tls.certificate.file", "required", "PEM: the server's certificate and its chain"),
        DocumentedSetting("tls.key.file", "required", "PEM: the certificate's private key"),
        DocumentedSetting("keys.file", "required", "JSON: whose provider tokens are good, see the README of the simulator"),
        DocumentedSetting(
            "client.ca.file", "none",
            "PEM: clients are asked for a certificate, and one by these authorities is as good as provider tokens"),
        DocumentedSetting("scenario", "calm", "what goes wrong from the start, by name: apns-simulator scenarios lists them"),
        DocumentedSetting("scenario.file", "none", "the same from a file of your own, instead of a name"),
        DocumentedSetting(
            "connections", "10000", "connections open at once, on all ports together; one more is closed as soon as it is accepted"),
        DocumentedSetting("streams", "1000", "MAX_CONCURRENT_STREAMS once a connection is authenticated"),
        DocumentedSetting("stream.gate", "on", "one stream until a request with a valid token was seen; on or off"),
        DocumentedSetting("stream.penalty", "on", "one stream after a 4xx (410 excepted) until a push is accepted; on or off"),
        DocumentedSetting(
            "rejection.limit", "0", "so many 4xx in a row (410 excepted) end a connection with GOAWAY; 0 for never"),
        DocumentedSetting(
            "idle.timeout.seconds", "7200", "a connection that says nothing for so long gets GOAWAY IdleTimeout; 0 for never"),
        DocumentedSetting(
            "unknown.devices", "accept", "pushes to tokens of devices that were never installed: accept, or reject with BadDeviceToken"),
        DocumentedSetting(
            "requests.per.second", "0", "what the server takes; more are answered 503 ServiceUnavailable; 0 for any number"),
        DocumentedSetting(
            "broadcasts.per.second", "0", "to one channel; more are answered 429 TooManyRequests; 0 for any number"),
        DocumentedSetting(
            "activity.budget.per.hour", "0",
            "updates with priority 10 that a Live Activity shows in an hour; more are accepted and not shown; 0 for any number"),
        DocumentedSetting("journal.capacity", "200000", "requests that the journal keeps"),
        DocumentedSetting("journal.file", "none", "every request is written here too; `apns-simulator journal FILE` reads it"),
        DocumentedSetting("threads", "1", "event loops"),
        DocumentedSetting("log.level", "info", "debug writes a line per push"),
    ]

    package static var help: String { DocumentedSetting.help(all) + "\n\n" + KeysFile.help }
}
