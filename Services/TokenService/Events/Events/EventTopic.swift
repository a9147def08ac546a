package import PushModel
import TokenServiceApps
package import TokenServiceRegistry
import TokenServiceSending

/// The topics of events of the token service and the dispatchers: `<kind>.<event>`, the second half of a routing key, and the value that
/// webhook filters match. `push.<topic>.v1` is the CloudEvents type, except for outcomes (``OutcomeEvent/type``).
package enum EventTopic {
    package static let notifications = [
        "notification.accepted", "notification.scheduled", "notification.expanding", "notification.sending", "notification.completed",
        "notification.cancelled", "notification.superseded", "notification.expired", "notification.no_targets",
    ]
    package static let installations = HistoryEntry.Event.allCases.map(\.topic)
    package static let deliveries = OutcomeClass.allCases.map { delivery($0) }
    package static let deviceReceipts = DeviceReceipt.Event.allCases.map(\.topic)
    package static let ping = "webhook.ping"

    /// Every topic that a webhook can ask for.
    package static let all = notifications + installations + deliveries + deviceReceipts

    static func of(_ log: EventLog) -> [String] {
        switch log {
        case .notifications: notifications
        case .installations: installations
        case .deviceReceipts: deviceReceipts
        }
    }

    package static func delivery(_ outcome: OutcomeClass) -> String { "delivery.\(outcome.rawValue)" }
}

extension HistoryEntry.Event {
    /// An installation's own changes, and those of its tokens.
    package var topic: String {
        let tokenPrefix = "token_"
        if rawValue.hasPrefix(tokenPrefix) { return "token.\(rawValue.dropFirst(tokenPrefix.count))" }
        return self == .environmentCorrected ? "token.\(rawValue)" : "installation.\(rawValue)"
    }
}
