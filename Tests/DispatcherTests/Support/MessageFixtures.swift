import OpenSSL
import PushModel

@testable import APNs
@testable import Broker
@testable import Dispatcher
@testable import RabbitMQ

/// Values that the tests of the core are about. Times are UNIX milliseconds from a fixed start.
enum Fixture {
    static let start: Int64 = 1_700_000_000_000
    static let shop = slug("shop")
    static let other = slug("other")
    static let unconfigured = slug("unconfigured")

    static func slug(_ text: String) -> AppSlug {
        guard let slug = AppSlug(text) else { preconditionFailure("not a slug: \(text)") }
        return slug
    }

    static func token(_ number: Int) -> DeviceToken {
        guard let token = DeviceToken(bytes: [0xaa, UInt8(truncatingIfNeeded: number >> 8), UInt8(truncatingIfNeeded: number)]) else {
            preconditionFailure("three bytes are a token")
        }
        return token
    }

    static func delivery(
        _ number: Int, environment: APNsEnvironment = .production, installation: PushID? = nil, ownerEpoch: Int64 = 1,
        earlier: PushJob.EarlierOutcome = .none
    ) -> PushJob.Delivery {
        PushJob.Delivery(
            id: PushID(high: 0xd, low: UInt64(number)), token: token(number), environment: environment,
            installation: installation ?? PushID(high: 0x1, low: UInt64(number)), ownerEpoch: ownerEpoch, earlierOutcome: earlier)
    }

    static func job(
        _ deliveries: [PushJob.Delivery], app: AppSlug = shop, notification: UInt64 = 7, lane: Lane = .now,
        expiresAt: Int64 = start + 24 * 3_600_000, attempt: Int = 0, onUnknown: PushJob.OnUnknown = .resend
    ) -> PushJob {
        PushJob(
            notification: PushID(high: 0xa, low: notification), app: app, lane: lane, pushType: .alert, topic: "com.example.shop",
            priority: 10, expiresAt: expiresAt, acceptedAt: start, attempt: attempt, onUnknown: onUnknown,
            payload: Array(#"{"aps":{"alert":"hi"}}"#.utf8), deliveries: deliveries)
    }

    /// - Parameter deliveries: their tokens are channels.
    static func broadcast(_ deliveries: [PushJob.Delivery], notification: UInt64 = 7) -> PushJob {
        var job = job(deliveries, notification: notification)
        job.isBroadcast = true
        job.pushType = .liveactivity
        job.payload = Array(#"{"aps":{"timestamp":1,"event":"update","content-state":{"goals":1}}}"#.utf8)
        return job
    }

    static func delivery(_ number: Int, to channel: ChannelID, environment: APNsEnvironment = .production) -> PushJob.Delivery {
        PushJob.Delivery(
            id: PushID(high: 0xd, low: UInt64(number)), token: channel.asToken, environment: environment, installation: .zero, ownerEpoch: 1
        )
    }

    static func channel(_ text: String = "dHN0LXNyY2gtY2hubA==") -> ChannelID {
        guard let channel = ChannelID(text) else { preconditionFailure("not an id of a channel: \(text)") }
        return channel
    }

    static func message(
        _ body: [UInt8], tag: UInt64 = 1, generation: UInt64 = 1, routingKey: String = "now", headers: [String: String] = [:]
    ) -> ReceivedMessage {
        ReceivedMessage(
            deliveryTag: DeliveryTag(generation: generation, tag: tag), queue: "push.jobs.\(routingKey)", routingKey: routingKey,
            redelivered: false,
            body: body, streamOffset: nil, properties: RabbitMQProperties(contentType: PushJob.contentType, headers: headers))
    }

    static func message(_ job: PushJob, tag: UInt64 = 1, generation: UInt64 = 1, headers: [String: String] = [:]) -> ReceivedMessage {
        message(
            job.encoded(), tag: tag, generation: generation, routingKey: job.lane.rawValue,
            headers: headers.merging([PushJob.appHeader: job.app.text]) { given, _ in given })
    }

    /// - Parameter offset: nil: a copy of the entry.
    static func control(_ message: ControlMessage, offset: Int64?, id: PushID? = nil) -> ReceivedMessage {
        ReceivedMessage(
            deliveryTag: DeliveryTag(generation: 1, tag: UInt64(offset ?? 0) + 1), queue: "push.control", routingKey: "push.control",
            redelivered: false, body: message.encoded(), streamOffset: offset,
            properties: RabbitMQProperties(contentType: ControlMessage.contentType, headers: [:], messageID: id?.description))
    }

    /// Pools: 0 is `shop` in production, 1 `shop` in the sandbox, 2 `other` in production only.
    static func directory() throws -> CredentialDirectory {
        CredentialDirectory(CredentialsFile(entries: try credentials()))
    }

    static func credentials() throws -> [CredentialsEntry] {
        let key = try ES256PrivateKey.generate()
        func credential(_ name: String) -> APNsCredential {
            APNsCredential(name: name, kind: .token(teamID: "TEAMIDTEAM", keyID: "KEYIDKEYID", key: key))
        }
        return [
            CredentialsEntry(credential: credential("shop"), environments: [.production, .sandbox], apps: [shop]),
            CredentialsEntry(credential: credential("other"), environments: [.production], apps: [other]),
        ]
    }
}

extension RabbitMQProperties {
    /// As a publisher's client writes them: AMQP 0-9-1 section 4.2.6.1.
    init(contentType: String, headers: [String: String], messageID: String? = nil) {
        var bytes: [UInt8] = [headers.isEmpty ? 0x80 : 0xa0, messageID == nil ? 0 : 0x80]
        func short(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }
        func long(_ count: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: count >> (24 - 8 * $0)) } }
        bytes += short(contentType)
        if !headers.isEmpty {
            let table = headers.sorted { $0.key < $1.key }.flatMap { name, value in
                short(name) + [UInt8(ascii: "S")] + long(value.utf8.count) + Array(value.utf8)
            }
            bytes += long(table.count) + table
        }
        if let messageID { bytes += short(messageID) }
        self.init(encoded: bytes)
    }
}
