import FoundationEssentials
import PushModel
import StrictJSON

/// The documented examples: `PushModel.docc/Contracts`.
enum Fixture {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Shared/PushModel/PushModel.docc/Contracts")

    static func bytes(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.appending(path: name)))
    }

    static func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    }

    /// The same JSON without blanks, as a program writes it.
    static func compact(_ bytes: [UInt8]) throws -> String {
        var writer = JSONWriter()
        writer.value(try JSONValue.parse(bytes))
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

/// The values that the examples stand for.
enum Sample {
    static let notification = PushID(high: 0x0198_0c5e_7d20_7c41, low: 0x9b1e_2f6a_0c3d_5e71)
    static let sentAt: Int64 = 1_782_214_201_000

    static func app() throws -> AppSlug { try known(AppSlug("shop")) }

    static func job() throws -> PushJob {
        PushJob(
            notification: notification, app: try app(), lane: .now, pushType: .alert, topic: "com.example.shop", priority: 10,
            collapseID: "order-4711", apnsExpiration: 1_782_300_600, expiresAt: 1_782_300_600_000, acceptedAt: 1_782_214_200_250,
            attempt: 1,
            onUnknown: .resend,
            payload: Array(
                #"""
                {"aps":{"alert":{"title":"Dein Paket ist da","body":"Größe \"M\" – bis 18 Uhr 📦"},"sound":"default"},"order":4711}
                """#.utf8),
            deliveries: [
                PushJob.Delivery(
                    id: PushID(high: 0x3f1c_9a52_6b0e_5d1f, low: 0x8a44_90b7_c2d1_e6f3),
                    token: try known(DeviceToken(hex: "740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad")),
                    environment: .production, installation: PushID(high: 0x9b2d_1c54_0e3f_4a6b, low: 0x8c7d_5e4f_3a2b_1c0d), ownerEpoch: 7,
                    earlierOutcome: .unknown),
                PushJob.Delivery(
                    id: PushID(high: 0xc4d0_b7e9_21fa_5c3e, low: 0x9f08_7a6b_5c4d_3e2f),
                    token: try known(DeviceToken(hex: "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0")),
                    environment: .sandbox, installation: PushID(high: 0x5a4b_3c2d_1e0f_4f9e, low: 0x8d7c_6b5a_4938_2716), ownerEpoch: 0,
                    environmentTrial: .allowed),
            ])
    }

    static func event(_ outcome: OutcomeClass) throws -> OutcomeEvent {
        let isFinal = ![.throttled, .misconfigured, .held, .unknown].contains(outcome)
        return OutcomeEvent(
            id: PushID(high: 0x0198_0c5e_9a11_7b02, low: 0x8c3d_4e5f_6071_8293), source: "/push/dispatcher/dispatcher-0",
            time: 1_782_214_201_125, app: try app(), outcome: outcome, isFinal: isFinal, deliveries: deliveries(outcome))
    }

    private static func deliveries(_ outcome: OutcomeClass) -> [OutcomeEvent.Delivery] {
        switch outcome {
        case .accepted:
            [
                delivery(1, status: 200, sentAt: sentAt),
                delivery(
                    2, attempt: 2, status: 200, sentAt: sentAt + 3, environment: .sandbox,
                    apnsUniqueID: "bb892ea6-c5de-4394-a8ae-a3f2978db329",
                    traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            ]
        case .tokenGone:
            [
                delivery(1, status: 410, reason: "Unregistered", timestamp: 1_782_100_000_000, sentAt: sentAt),
                delivery(2, status: 410, reason: "ExpiredToken", timestamp: 1_782_200_000_000, sentAt: sentAt),
            ]
        case .tokenRejected: [delivery(1, status: 400, reason: "BadDeviceToken", sentAt: sentAt)]
        case .throttled: [delivery(1, status: 429, reason: "TooManyRequests", sentAt: sentAt, retryAt: sentAt + 120_000)]
        case .rejected: [delivery(1, status: 413, reason: "PayloadTooLarge", sentAt: sentAt)]
        case .misconfigured: [delivery(1, status: 403, reason: "InvalidProviderToken", sentAt: sentAt, retryAt: sentAt + 30_000)]
        case .expired, .fenced, .cancelled: [delivery(1)]
        case .held: [delivery(1, reason: "app_held", retryAt: sentAt + 900_000)]
        case .failed: [delivery(1, attempt: 8, status: 503, reason: "ServiceUnavailable", sentAt: sentAt)]
        case .unknown: [delivery(1, reason: "connection_lost", sentAt: sentAt, retryAt: sentAt + 1000)]
        }
    }

    private static func delivery(
        _ digit: UInt64, attempt: Int = 1, status: Int? = nil, reason: String? = nil, timestamp: Int64? = nil, sentAt: Int64? = nil,
        retryAt: Int64? = nil, environment: APNsEnvironment? = nil, apnsUniqueID: String? = nil,
        traceparent: String? = nil
    ) -> OutcomeEvent.Delivery {
        OutcomeEvent.Delivery(
            id: PushID(high: 0x3f1c_9a52_6b0e_5d1f, low: 0x8a44_90b7_c2d1_e6f0 | digit), notification: notification,
            installation: PushID(high: 0x9b2d_1c54_0e3f_4a6b, low: 0x8c7d_5e4f_3a2b_1c00 | digit), attempt: attempt,
            ownerEpoch: digit == 1 ? 7 : 0, status: status, reason: reason, timestamp: timestamp, sentAt: sentAt, retryAt: retryAt,
            environment: environment, apnsUniqueID: apnsUniqueID, traceparent: traceparent)
    }

    static func known<Value>(_ value: Value?) throws -> Value {
        guard let value else { throw NotASample() }
        return value
    }
}

private struct NotASample: Error {}
