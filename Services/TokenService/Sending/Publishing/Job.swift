package import PushModel

/// Up to ``PushJob/maximumDeliveries`` deliveries that are due at one moment with one payload.
package struct Job: Equatable, Sendable {
    package var number: Int
    /// The locale of the content's variant; empty for the default.
    package var locale: String
    /// UNIX milliseconds.
    package var dueAt: Int64
    /// Token ids; a delivery's position is its place here. Of a broadcast: its channel (``BroadcastMember/memberID``).
    package var members: [Int64]
    /// The positions of members whose tokens are registered for the sandbox.
    package var sandbox: [Int]

    package init(number: Int, locale: String, dueAt: Int64, members: [Int64], sandbox: [Int] = []) {
        self.number = number
        self.locale = locale
        self.dueAt = dueAt
        self.members = members
        self.sandbox = sandbox
    }

    var isBroadcast: Bool { members.first.map(BroadcastMember.isChannel) ?? false }

    /// The mask as PostgreSQL writes `bit(100)`: the first position first.
    static func mask(of positions: [Int]) -> String {
        guard !positions.isEmpty else { return emptyMask }
        var bits = [UInt8](repeating: UInt8(ascii: "0"), count: PushJob.maximumDeliveries)
        for position in positions { bits[position] = UInt8(ascii: "1") }
        return String(decoding: bits, as: UTF8.self)
    }

    private static let emptyMask = String(repeating: "0", count: PushJob.maximumDeliveries)

    /// The positions of a `bit(100)`.
    package static func positions(in mask: String) -> [Int] {
        mask == emptyMask ? [] : mask.utf8.enumerated().filter { $1 == UInt8(ascii: "1") }.map(\.offset)
    }

    /// Eight bytes each, big-endian.
    static func bytes(of members: [Int64]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(members.count * 8)
        for member in members {
            let word = UInt64(bitPattern: member)
            bytes.append(contentsOf: repeatElement(0, count: 8))
            var text = bytes.mutableSpan
            let place = text.count - 8
            for index in 0..<8 { text[place + index] = UInt8(truncatingIfNeeded: word &>> UInt64(56 - 8 * index)) }
        }
        return bytes
    }

    package static func members(of bytes: [UInt8]) -> [Int64] {
        let text = bytes.span
        return (0..<text.count / 8).map { member in
            var word: Int64 = 0
            for index in member * 8..<member * 8 + 8 { word = word << 8 | Int64(text[index]) }
            return word
        }
    }
}

/// A committed job with the deliveries to publish.
package struct PublishableJob: Sendable {
    package var id: JobID
    package var template: JobTemplate
    package var deliveries: EncodedDeliveries
    /// The outcome of members that get no push any more. It goes the way of all outcomes, before the job.
    package var stopped: OutcomeEvent?
    /// Fan-out made it, not the acceptance.
    package var isOfFanOut = false

    /// Whether its publication ends the wait of a notification with a small target.
    var isFirst: Bool { !isOfFanOut && id.number == 0 }
}
