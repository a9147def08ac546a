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
