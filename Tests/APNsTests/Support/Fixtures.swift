import PushModel
import SystemIO

@testable import APNs

let start = ContinuousClock.now

extension APNsBatch {
    /// A batch whose requests are numbered from 0. Each token holds the batch and the number.
    /// - Parameter bytes: of the payload.
    static func make(
        _ count: Int = 1, tag: UInt64 = 1, lane: Lane = .now, expiresIn milliseconds: Int64 = 3_600_000, topic: String = "com.example.shop",
        collapseID: String? = nil, collapsesByID: Bool = false, expiration: Int64? = nil, bytes: Int? = nil,
        expiresAt: Int64? = nil
    ) -> APNsBatch {
        APNsBatch(
            tag: tag, lane: lane, pushType: .alert, topic: topic, priority: 10, collapseID: collapseID,
            collapsesByID: collapsesByID, expiration: expiration, expiresAt: expiresAt ?? WallClock.milliseconds() + milliseconds,
            payload: bytes.map { Array(repeating: 0x20, count: $0) } ?? Array(#"{"aps":{"alert":"Hello"}}"#.utf8),
            requests: (0..<count).map { .make($0, tag: tag) })
    }

    /// One request for each channel.
    static func broadcast(
        to channels: [ChannelID], tag: UInt64 = 1, topic: String = "com.example.shop", expiration: Int64? = nil,
        payload: String = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#
    ) -> APNsBatch {
        APNsBatch(
            tag: tag, target: .broadcast, lane: .now, pushType: .liveactivity, topic: topic, priority: 10, expiration: expiration,
            expiresAt: WallClock.milliseconds() + 3_600_000, payload: Array(payload.utf8),
            requests: channels.enumerated().map { index, channel in
                APNsRequest(
                    id: PushID(high: tag << 16 | 0x4000, low: 0x8000_0000_0000_0000 | UInt64(index)), token: channel.asToken,
                    installation: .zero, ownerEpoch: 1, index: index)
            })
    }
}

extension APNsRequest {
    static func make(_ index: Int, tag: UInt64) -> APNsRequest {
        let high = [UInt8](repeating: 0xa0, count: 16)
        let low = (0..<8).map { UInt8(truncatingIfNeeded: tag >> UInt64(56 - 8 * $0)) }
        let number = (0..<8).map { UInt8(truncatingIfNeeded: index >> (56 - 8 * $0)) }
        guard let token = DeviceToken(bytes: high + low + number) else { preconditionFailure("32 bytes are a token") }
        return APNsRequest(
            id: PushID(high: tag << 16 | 0x4000, low: 0x8000_0000_0000_0000 | UInt64(index)), token: token,
            installation: PushID(high: 7, low: UInt64(index)), ownerEpoch: 1, index: index)
    }
}

extension Share {
    static func make(_ batch: APNsBatch, at instant: ContinuousClock.Instant = start) -> Share {
        Share(ledger: BatchLedger(batch), requests: batch.requests.indices, queuedAt: instant)
    }
}

extension APNsAnswer.Result {
    static let accepted = APNsAnswer.Result.response(status: 200, reason: nil, timestamp: nil, retryAfter: nil)

    var isAccepted: Bool { self == .accepted }
}

extension APNsFinishedBatch {
    /// What became of request `index`.
    subscript(_ index: Int) -> APNsAnswer.Result? { answers.first { $0.index == index }?.result }
    var acceptedCount: Int { answers.count { $0.result.isAccepted } }
}
