package import PushModel
package import StrictJSON
package import TokenServiceApps
package import TokenServiceRegistry
import TokenServiceSending

/// One state change, as a CloudEvents 1.0 event in structured JSON. It holds ids and facts: no payload, no token, no user.
package struct PlatformEvent: Sendable {
    package static let contentType = "application/cloudevents+json"
    package static let source = "/push/token-service"

    /// The event's id, the same however often the event is published.
    package let id: PushID
    package let topic: String
    package let app: App.ID
    package let slug: AppSlug
    /// The resource: `notifications/<id>`, `installations/<id>`.
    package let subject: String
    /// UNIX milliseconds.
    package let time: Int64
    /// The fields of `data` after `v` and `app`.
    private let write: @Sendable (inout JSONWriter) -> Void

    package init(
        id: PushID, topic: String, app: App.ID, slug: AppSlug, subject: String, time: Int64,
        _ write: @escaping @Sendable (inout JSONWriter) -> Void = { _ in }
    ) {
        self.id = id
        self.topic = topic
        self.app = app
        self.slug = slug
        self.subject = subject
        self.time = time
        self.write = write
    }

    package static func type(_ topic: String) -> String { "push.\(topic).v1" }

    /// `<app>.<kind>.<event>`: three words, where an outcome's key has two.
    package var routingKey: String { "\(slug.text).\(topic)" }

    package func encoded() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 512)
        writer.object { writer in
            writer.field("specversion", "1.0")
            writer.plainField("id", id.append)
            writer.field("source", Self.source)
            writer.field("type", Self.type(topic))
            writer.field("subject", subject)
            writer.plainField("time") { RFC3339.append(milliseconds: time, to: &$0) }
            writer.field("datacontenttype", "application/json")
            writer.object("data") { writer in
                writer.field("v", 1)
                writer.field("app", slug.text)
                write(&writer)
            }
        }
        return writer.bytes
    }

    /// An event that its owner sends to try a webhook.
    package static func ping(id: PushID, webhook: PushID, app: App.ID, slug: AppSlug, at time: Int64) -> PlatformEvent {
        PlatformEvent(id: id, topic: EventTopic.ping, app: app, slug: slug, subject: "webhooks/\(webhook)", time: time) { writer in
            writer.plainField("webhook", webhook.append)
        }
    }

    /// An id made of the moment, the log and the row: version 8 of RFC 9562, ordered by time.
    package static func id(of log: EventLog, row: Int64, at milliseconds: Int64) -> PushID {
        PushID(
            high: UInt64(truncatingIfNeeded: milliseconds) << 16 | 0x8000 | log.number,
            low: UInt64(truncatingIfNeeded: row) & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000)
    }
}

extension HistoryEntry {
    /// The event of a row of `installation_history`. It does not name the user.
    package func event(id: PushID, slug: AppSlug) -> PlatformEvent {
        PlatformEvent(id: id, topic: event.topic, app: app, slug: slug, subject: "installations/\(installation)", time: at) { writer in
            writer.plainField("installation", installation.append)
            writer.field("owner_epoch", ownerEpoch)
            if let token {
                writer.object("token") { object in
                    object.field("hint", token.hint)
                    object.field("environment", token.environment)
                    object.field("purpose", token.purpose)
                }
            }
            if let otherInstallation { writer.plainField("other_installation", otherInstallation.append) }
            writer.field("status", status)
            writer.field("reason", reason)
            writer.field("apns_timestamp_ms", apnsTimestamp)
            if let delivery { writer.plainField("delivery", delivery.append) }
        }
    }
}

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
