import FoundationEssentials
import StrictJSON
import SwiftProtobuf

/// One message in `push.jobs`: one notification's payload and headers, and up to ``maximumDeliveries`` deliveries.
///
/// Times are UNIX milliseconds, except `apnsExpiration`, which is a header's value in seconds.
package struct PushJob: Equatable, Sendable {
    /// The version this program writes. A reader refuses a greater one.
    package static let currentVersion = 1
    package static let maximumDeliveries = 100
    /// Header of a replayed job: its attempts in outcomes count from here, so that an event from before the replay can be recognised. Kept
    /// through retries.
    package static let earlierAttemptsHeader = "push-earlier-attempts"
    /// Header of each job: ``app``, so that a dispatcher can queue jobs fairly before it decodes them. Kept through retries.
    package static let appHeader = "push-app"

    package var notification: PushID
    /// The update of a Live Activity that this copy takes to devices that came later. A hold on the update keeps this job, too.
    package var original: PushID?
    package var app: AppSlug
    package var lane: Lane
    package var pushType: PushType
    package var topic: String
    package var priority: Int
    package var collapseID: String?
    /// `apns-expiration`: absolute UNIX seconds; 0 = Apple tries once; nil = Apple's default.
    package var apnsExpiration: Int64?
    /// No request of this job is sent at or after this moment.
    package var expiresAt: Int64
    package var acceptedAt: Int64
    /// How many attempts the deliveries in this job had before.
    package var attempt: Int
    package var onUnknown: OnUnknown
    /// The APNs body, verbatim.
    package var payload: [UInt8]
    package var deliveries: [Delivery]
    /// Each delivery goes to a broadcast channel: `topic` is the app's bundle id, the delivery's `token` holds the channel's id
    /// (``ChannelID/asToken``), and its installation is ``PushID/zero``.
    package var isBroadcast: Bool

    /// The rule for a request that left and got no answer. The token service decides; a job carries the rest of the decision.
    package enum OnUnknown: String, Sendable, CaseIterable {
        /// Send again under the same ids: at least once.
        case resend
        /// Send once more, at once, while the notification is young; that copy's job says ``drop``.
        case resendOnce = "resend_once"
        /// Give up: at most once, unless the process that sent it is lost.
        case drop
    }

    /// One notification × one token.
    package struct Delivery: Equatable, Sendable {
        /// The delivery's place in the jobs of its notification: the same on every attempt, and the `apns-id`.
        package var id: PushID
        package var token: DeviceToken
        package var environment: APNsEnvironment
        package var installation: PushID
        /// The installation's owner epoch when the delivery was made; a fence above it stops the delivery.
        package var ownerEpoch: Int64
        package var environmentTrial: EnvironmentTrial
        package var earlierOutcome: EarlierOutcome

        package init(
            id: PushID, token: DeviceToken, environment: APNsEnvironment, installation: PushID, ownerEpoch: Int64,
            environmentTrial: EnvironmentTrial = .none, earlierOutcome: EarlierOutcome = .none
        ) {
            self.id = id
            self.token = token
            self.environment = environment
            self.installation = installation
            self.ownerEpoch = ownerEpoch
            self.environmentTrial = environmentTrial
            self.earlierOutcome = earlierOutcome
        }
    }

    /// The worst result of the attempts before this one. It decides how a delivery ends of which no more requests are sent
    /// (``OutcomeClass/after(_:)``).
    package enum EarlierOutcome: String, Sendable, CaseIterable, Comparable {
        /// No request has left.
        case none
        /// APNs answered that it could not take it now.
        case failed
        /// One left and got no answer: it may have arrived.
        case unknown

        package static func < (left: EarlierOutcome, right: EarlierOutcome) -> Bool {
            left == .none && right != .none || left == .failed && right == .unknown
        }
    }

    /// APNs rejects a token of the other environment as a bad token. If APNs never accepted the token, only the client has stated its
    /// environment.
    package enum EnvironmentTrial: String, Sendable, CaseIterable {
        case none
        /// On `BadDeviceToken`, the delivery may be tried once in the other environment.
        case allowed
        /// This is that try: `environment` is not the one that the token was registered for.
        case made
    }

    package init(
        notification: PushID, original: PushID? = nil, app: AppSlug, lane: Lane, pushType: PushType, topic: String, priority: Int,
        collapseID: String? = nil, apnsExpiration: Int64? = nil, expiresAt: Int64, acceptedAt: Int64, attempt: Int = 0,
        onUnknown: OnUnknown, payload: [UInt8], deliveries: [Delivery], isBroadcast: Bool = false
    ) {
        self.notification = notification
        self.original = original
        self.app = app
        self.lane = lane
        self.pushType = pushType
        self.topic = topic
        self.priority = priority
        self.collapseID = collapseID
        self.apnsExpiration = apnsExpiration
        self.expiresAt = expiresAt
        self.acceptedAt = acceptedAt
        self.attempt = attempt
        self.onUnknown = onUnknown
        self.payload = payload
        self.deliveries = deliveries
        self.isBroadcast = isBroadcast
    }
}

extension PushJob {
    /// The job for people: what the dead-letter tools show, one line of JSON.
    ///
    /// - Parameter includingTokens: Without, which is the default, each delivery shows its token's `hint` instead: whole tokens are
    ///   personal data, and so is the payload, of which only the size is shown then.
    package func jsonDescription(includingTokens: Bool = false) -> String {
        var writer = JSONWriter(reservingCapacity: payload.count + 512 + deliveries.count * 288)
        writer.object { writer in
            writer.field("v", Self.currentVersion)
            writer.plainField("notification", notification.append)
            if let original { writer.plainField("original", original.append) }
            writer.field("app", app.text)
            writer.field("lane", lane.rawValue)
            writer.field("push_type", pushType.rawValue)
            writer.field("topic", topic)
            writer.field("priority", priority)
            writer.field("collapse_id", collapseID)
            writer.field("apns_expiration", apnsExpiration)
            writer.field("expires_at_ms", expiresAt)
            writer.field("accepted_at_ms", acceptedAt)
            writer.field("attempt", attempt)
            writer.field("on_unknown", onUnknown.rawValue)
            if isBroadcast { writer.field("broadcast", true) }
            if includingTokens { writePayload(to: &writer) } else { writer.field("payload_bytes", payload.count) }
            writer.array("deliveries") { writer in
                for delivery in deliveries { delivery.write(to: &writer, includingToken: includingTokens, isBroadcast: isBroadcast) }
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Writes the payload as it is if it is JSON, which the API has made sure of; else as text.
    private func writePayload(to writer: inout JSONWriter) {
        do {
            _ = try JSONValue.parse(payload)
            writer.field("payload", raw: payload)
        } catch {
            writer.field("payload", String(decoding: payload, as: UTF8.self))
        }
    }
}

extension PushJob.Delivery {
    /// A channel's id is no personal data.
    fileprivate func write(to writer: inout JSONWriter, includingToken: Bool, isBroadcast: Bool) {
        writer.object { writer in
            writer.plainField("id", id.append)
            if isBroadcast {
                writer.field("channel_id", ChannelID(token).text)
            } else if includingToken {
                writer.plainField("token", token.appendHex)
            } else {
                writer.field("hint", token.hint)
            }
            writer.field("environment", environment.rawValue)
            writer.plainField("installation", installation.append)
            writer.field("owner_epoch", ownerEpoch)
            if environmentTrial != .none { writer.field("environment_trial", environmentTrial.rawValue) }
            if earlierOutcome != .none { writer.field("earlier_outcome", earlierOutcome.rawValue) }
        }
    }
}

/// The wire form: Protocol Buffers, `Generated/push_job.proto` (why: docs/decisions/job-encoding.md). PushModel.docc, Contracts, describes
/// the fields. `PushJob+Decoding.swift` reads it.
extension PushJob {
    package static let contentType = "application/x-protobuf"
    /// Longer bytes are not read at all. A full job with the longest tokens and payload is a tenth of it.
    package static let maximumBytes = 1 << 20

    package func encoded() -> [UInt8] { encoded(with: EncodedDeliveries(deliveries)) }

    /// The job with these deliveries instead of its own. They are its last field.
    package func encoded(with deliveries: EncodedDeliveries) -> [UInt8] {
        do {
            var bytes: [UInt8] = try WireJob(self).serializedBytes()
            bytes.append(contentsOf: deliveries.bytes)
            return bytes
        } catch {
            // Only a message of more than 2 GB, an Any or a missing proto2 field can fail (SwiftProtobuf, BinaryEncodingError).
            preconditionFailure("a job cannot be serialized: \(error)")
        }
    }
}

extension WireJob {
    /// All but the deliveries.
    fileprivate init(_ job: PushJob) {
        self.init()
        v = Int32(PushJob.currentVersion)
        notificationHigh = job.notification.high
        notificationLow = job.notification.low
        if let original = job.original { (originalHigh, originalLow) = (original.high, original.low) }
        app = job.app.text
        lane = WireLane(job.lane)
        pushType = job.pushType.rawValue
        topic = job.topic
        priority = Int32(clamping: job.priority)
        if let collapseID = job.collapseID { self.collapseID = collapseID }
        if let apnsExpiration = job.apnsExpiration { self.apnsExpiration = apnsExpiration }
        expiresAtMs = job.expiresAt
        acceptedAtMs = job.acceptedAt
        attempt = Int32(clamping: job.attempt)
        onUnknown = WireOnUnknown(job.onUnknown)
        payload = Data(job.payload)
        broadcast = job.isBroadcast
    }
}
