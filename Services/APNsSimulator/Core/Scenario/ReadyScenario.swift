/// The scenarios that come with the program: selectable by name, and printed by `apns-simulator scenarios NAME` as a file to begin with.
package enum ReadyScenario: String, CaseIterable, Sendable {
    case calm
    case badDay = "bad-day"
    case slow
    case outage
    case regionFailover = "region-failover"
    case keyRevoked = "key-revoked"
    case throttled
    case massUninstall = "mass-uninstall"
    case stalled
    case brokenTLS = "broken-tls"
    case protocolAbuse = "protocol-abuse"
    case distant
    case teamTokens = "team-tokens"
    case offlineQueue = "offline-queue"
    case lostStarts = "lost-starts"

    package var scenario: Scenario {
        get throws(SimulatorError) { try ScenarioReader.parse(Array(text.utf8)) }
    }

    /// - Throws: ``SimulatorError`` that lists the names there are.
    package static func named(_ name: String) throws(SimulatorError) -> Scenario {
        guard let ready = Self(rawValue: name) else {
            throw SimulatorError(.scenario, "no scenario is called \(name): there are " + allCases.map(\.rawValue).joined(separator: ", "))
        }
        return try ready.scenario
    }

    /// The scenario file.
    package var text: String {
        switch self {
        case .calm: #"{ "v": 1, "name": "calm", "about": "Nothing goes wrong." }"#
        case .badDay: Self.badDayText
        case .slow: Self.slowText
        case .outage: Self.outageText
        case .regionFailover: Self.regionFailoverText
        case .keyRevoked: Self.keyRevokedText
        case .throttled: Self.throttledText
        case .massUninstall: Self.massUninstallText
        case .stalled: Self.stalledText
        case .brokenTLS: Self.brokenTLSText
        case .protocolAbuse: Self.protocolAbuseText
        case .distant: Self.distantText
        case .teamTokens: Self.teamTokensText
        case .offlineQueue: Self.offlineQueueText
        case .lostStarts: Self.lostStartsText
        }
    }
}

extension ReadyScenario {
    static let badDayText = """
        {
          "v": 1, "name": "bad-day", "seed": 7,
          "about": "A little of everything that clients have met: refused streams, slow and missing answers, 429 and 5xx, GOAWAY, dying \
        connections.",
          "requests": [
            { "name": "goaway", "every": 400, "do": [
              { "action": "goaway", "reason": "Shutdown", "weight": 3 },
              { "action": "goaway", "last_stream": "this" },
              { "action": "goaway", "text": "Maximum active streams violated for this endpoint.", "error_code": 7 } ] },
            { "name": "dying connection", "share": 0.0005, "do": [
              { "action": "close", "weight": 2 }, { "action": "close", "abruptly": true }, { "action": "half_frame", "close": true }, \
        { "action": "freeze" } ] },
            { "name": "refused", "share": 0.01, "do": [ { "action": "reset", "weight": 4 }, { "action": "reset", "error_code": 2 } ] },
            { "name": "never answered", "share": 0.002, "do": [ { "action": "silence" } ] },
            { "name": "server errors", "share": 0.02, "do": [
              { "action": "answer", "status": 503, "reason": "ServiceUnavailable", "weight": 3 },
              { "action": "answer", "status": 500, "reason": "InternalServerError", "frame_bytes": 7 },
              { "action": "answer", "status": 503, "reason": "Shutdown" }, { "action": "answer", "status": 500 } ] },
            { "name": "throttled", "on": ["push"], "share": 0.01, "do": [ \
        { "action": "answer", "status": 429, "reason": "TooManyRequests" } ] },
            { "name": "fewer streams", "every": 1500, "do": [ { "action": "streams", "streams": 3 } ] },
            { "name": "more streams again", "every": 1700, "do": [ { "action": "streams", "streams": 500 } ] },
            { "name": "late", "share": 0.3, "do": [ { "action": "late", \
        "delay": { "percentiles": [[50, 30], [90, 150], [99, 800], [100, 4000]] } } ] }
          ],
          "connections": [
            { "name": "bad beginning", "share": 0.1, "do": [ { "action": "refuse" }, { "action": "stall_tls", "for_ms": 2000 }, \
        { "action": "refuse_tls" } ] }
          ]
        }
        """

    static let slowText = """
        {
          "v": 1, "name": "slow", "seed": 3,
          "about": "Everything is answered, late: half within 500 ms, one in a hundred after more than 5 s, the worst after 20 s.",
          "requests": [
            { "name": "late", "do": [ { "action": "late", \
        "delay": { "percentiles": [[50, 500], [90, 1500], [99, 5000], [100, 20000]] } } ] }
          ],
          "connections": [ { "name": "slow handshake", "do": [ { "action": "stall_tls", "for_ms": 700 } ] } ]
        }
        """

    static let distantText = """
        {
          "v": 1, "name": "distant",
          "about": "Far away: whatever the server sends, TLS's handshake and every frame, comes 300 ms late and in its order.",
          "round_trip_ms": 300
        }
        """

    static let teamTokensText = """
        {
          "v": 1, "name": "team-tokens",
          "about": "APNs counts provider tokens for each team: a second one within 20 minutes is 429 on every connection, and a connection \
        that got a 429 for it stays unusable.",
          "readings": { "token_updates": "team", "token_refusal": "connection" }
        }
        """

    static let offlineQueueText = """
        {
          "v": 1, "name": "offline-queue",
          "about": "APNs keeps every push for a device that is off; the same collapse id takes the place of the earlier one.",
          "readings": { "stored": "collapse_id" }
        }
        """

    static let lostStartsText = """
        {
          "v": 1, "name": "lost-starts",
          "about": "APNs accepts every start of a Live Activity with 200, and none appears.",
          "readings": { "starts": "lost" }
        }
        """

    static let outageText = """
        {
          "v": 1, "name": "outage", "seed": 5,
          "about": "After ten seconds: 5xx more and more, then GOAWAY and no connections for half a minute, then well again.",
          "requests": [
            { "name": "first signs", "from_ms": 10000, "until_ms": 15000, "share": 0.3, "do": [ \
        { "action": "answer", "status": 500, "reason": "InternalServerError" } ] },
            { "name": "going down", "from_ms": 15000, "until_ms": 50000, "do": [
              { "action": "answer", "status": 503, "reason": "ServiceUnavailable", "weight": 4 }, { "action": "silence" } ] }
          ],
          "connections": [
            { "name": "no server", "from_ms": 20000, "until_ms": 50000, "do": [ { "action": "refuse", "weight": 3 }, \
        { "action": "stall_tls", "for_ms": 15000 } ] }
          ],
          "events": [ { "name": "down", "at_ms": 20000, "action": "goaway", "reason": "Shutdown", "close": true } ]
        }
        """

    static let regionFailoverText = """
        {
          "v": 1, "name": "region-failover", "seed": 11,
          "about": "After ten seconds the region is drained: GOAWAY twice, connections cut two seconds later, new ones refused for three \
        seconds; the next region is cold and slow at first.",
          "requests": [
            { "name": "cold region", "from_ms": 12000, "until_ms": 30000, "do": [ { "action": "late", \
        "delay": { "from_ms": 100, "to_ms": 1500 } } ] }
          ],
          "connections": [
            { "name": "between regions", "from_ms": 10000, "until_ms": 13000, "do": [ { "action": "refuse" } ] },
            { "name": "cold region", "from_ms": 13000, "until_ms": 30000, "do": [ { "action": "streams", "streams": 100 } ] }
          ],
          "events": [
            { "name": "notice", "at_ms": 10000, "action": "goaway", "last_stream": "all" },
            { "name": "drained", "at_ms": 10500, "action": "goaway", "reason": "Shutdown" },
            { "name": "cut", "at_ms": 12000, "action": "close", "abruptly": true }
          ]
        }
        """

    static let keyRevokedText = """
        {
          "v": 1, "name": "key-revoked",
          "about": "After ten seconds the signing key is revoked: every request is 403 InvalidProviderToken, on every connection, until \
        another scenario is set.",
          "requests": [
            { "name": "revoked", "from_ms": 10000, "do": [ { "action": "answer", "status": 403, "reason": "InvalidProviderToken" } ] }
          ]
        }
        """

    static let throttledText = """
        {
          "v": 1, "name": "throttled", "seed": 13,
          "about": "One token in twenty is always 429 TooManyRequests, and one push in fifty to the others.",
          "requests": [
            { "name": "busy devices", "share_of_tokens": 0.05, "do": [ \
        { "action": "answer", "status": 429, "reason": "TooManyRequests" } ] },
            { "name": "now and then", "on": ["push"], "share": 0.02, "do": [ \
        { "action": "answer", "status": 429, "reason": "TooManyRequests" } ] }
          ]
        }
        """

    static let massUninstallText = """
        {
          "v": 1, "name": "mass-uninstall", "seed": 17,
          "about": "Apple has re-tuned its 410s: three tokens in ten are Unregistered since long ago, one in a hundred is ExpiredToken.",
          "requests": [
            { "name": "expired", "share_of_tokens": 0.01, "do": [ { "action": "answer", "status": 410, "reason": "ExpiredToken" } ] },
            { "name": "gone", "share_of_tokens": 0.3, "do": [ \
        { "action": "answer", "status": 410, "reason": "Unregistered", "timestamp_ms": 1700000000000 } ] }
          ]
        }
        """

    static let stalledText = """
        {
          "v": 1, "name": "stalled", "seed": 19,
          "about": "Connections that look alive: every fifth has no window for bodies, and each dies silently after a thousand requests.",
          "requests": [
            { "name": "silent death", "every": 1000, "do": [ { "action": "freeze" } ] },
            { "name": "window shut", "positions": [500], "do": [ { "action": "window", "bytes": 0 } ] },
            { "name": "narrow window", "positions": [100], "do": [ { "action": "window", "bytes": 512 } ] }
          ],
          "connections": [ { "name": "no window", "every": 5, "do": [ { "action": "window", "bytes": 0 } ] } ]
        }
        """

    static let brokenTLSText = """
        {
          "v": 1, "name": "broken-tls", "seed": 23,
          "about": "Of every six connections one succeeds: refused, an alert, no ServerHello, a certificate of another name, no ALPN.",
          "connections": [
            { "name": "broken", "share": 0.83, "do": [
              { "action": "refuse" }, { "action": "refuse_tls" }, { "action": "stall_tls" }, { "action": "wrong_certificate" }, \
        { "action": "no_alpn" } ] }
          ]
        }
        """

    static let protocolAbuseText = """
        {
          "v": 1, "name": "protocol-abuse", "seed": 29,
          "about": "What HTTP/2 allows and clients forget: answers in one-byte frames, answers without a body, unknown statuses, streams \
        down to one, two GOAWAYs, half frames.",
          "requests": [
            { "name": "one byte at a time", "on": ["push"], "share": 0.2, "do": [ \
        { "action": "answer", "status": 400, "reason": "BadDeviceToken", "frame_bytes": 1 } ] },
            { "name": "no body", "share": 0.1, "do": [ { "action": "answer", "status": 400 }, { "action": "answer", "status": 503 } ] },
            { "name": "unheard of", "share": 0.1, "do": [ { "action": "answer", "status": 418, "reason": "IAmATeapot" }, \
        { "action": "answer", "status": 599, "reason": "NeverHeardOf" } ] },
            { "name": "odd resets", "share": 0.05, "do": [ { "action": "reset", "error_code": 11 }, \
        { "action": "reset", "error_code": 0 }, { "action": "reset", "error_code": 4242 } ] },
            { "name": "down to one", "every": 50, "do": [ { "action": "streams", "streams": 1 } ] },
            { "name": "up again", "every": 70, "do": [ { "action": "streams", "streams": 1000 } ] },
            { "name": "notice", "positions": [300], "do": [ { "action": "goaway", "last_stream": "all" } ] },
            { "name": "goaway", "positions": [301], "do": [ { "action": "goaway", "last_stream": 0, "error_code": 99 } ] },
            { "name": "half a frame", "share": 0.002, "do": [ { "action": "half_frame" }, { "action": "half_frame", "close": true } ] }
          ]
        }
        """
}
