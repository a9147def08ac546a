/// A UUID (RFC 9562): sixteen bytes, written in lower case, because APNs wants a lower-case `apns-id`
/// (Apple: Sending notification requests to APNs).
package struct PushID: Hashable, Sendable, Comparable {
    package let high: UInt64
    package let low: UInt64

    /// The nil UUID, which stands for none.
    package static let zero = PushID(high: 0, low: 0)

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Any 8-4-4-4-12 spelling, either case; nil when it is not one.
    package init?(_ text: String) { self.init(digits: text.utf8.span) }

    /// Any 8-4-4-4-12 spelling, either case; nil when it is not one.
    package init?(_ text: Substring) { self.init(digits: text.utf8.span) }

    /// Makes the id from bytes of text, for the hot path.
    package init?(ascii: ArraySlice<UInt8>) { self.init(digits: ascii.span) }

    private init?(digits ascii: Span<UInt8>) {
        guard ascii.count == Self.textCount else { return nil }
        var hex = HexAccumulator()
        for place in [8, 13, 18, 23] { guard ascii[place] == UInt8(ascii: "-") else { return nil } }
        func number(_ number: UInt64, _ places: Range<Int>) -> UInt64 {
            var number = number
            for place in places { number = number << 4 | UInt64(hex.value(ascii[place])) }
            return number
        }
        let high = number(number(number(0, 0..<8), 9..<13), 14..<18)
        let low = number(number(0, 19..<23), 24..<36)
        guard hex.isValid else { return nil }
        self.init(high: high, low: low)
    }

    /// Sixteen bytes, most significant first; nil for another count.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        var high: UInt64 = 0
        var low: UInt64 = 0
        for (index, byte) in bytes.enumerated() {
            if index < 8 { high = high << 8 | UInt64(byte) } else { low = low << 8 | UInt64(byte) }
        }
        self.init(high: high, low: low)
    }

    /// Version 7: ordered by time, so that rows made together lie together in an index.
    /// - Parameter milliseconds: UNIX time.
    package static func timeOrdered(milliseconds: Int64) -> PushID {
        var generator = SystemRandomNumberGenerator()
        return timeOrdered(milliseconds: milliseconds, using: &generator)
    }

    /// Makes the id with the caller's random numbers.
    package static func timeOrdered(milliseconds: Int64, using generator: inout some RandomNumberGenerator) -> PushID {
        PushID(
            high: UInt64(truncatingIfNeeded: milliseconds) << 16 | 0x7000 | generator.next() & 0x0fff,
            low: generator.next() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000)
    }

    /// The time that a version 7 begins with, in UNIX milliseconds; nil for other versions.
    package var milliseconds: Int64? { high & 0xf000 == 0x7000 ? Int64(high >> 16) : nil }

    package static func random() -> PushID {
        PushID(
            high: UInt64.random(in: .min ... .max) & ~0xf000 | 0x4000,
            low: UInt64.random(in: .min ... .max) & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000)
    }

    package var bytes: [UInt8] {
        [UInt8](filling: 16) { index in
            UInt8(truncatingIfNeeded: (index < 8 ? high : low) >> UInt64(56 - 8 * (index % 8)))
        }
    }

    /// Appends the 36 lower-case ASCII characters, for the hot path.
    package func append(to buffer: inout [UInt8]) {
        let place = buffer.count
        buffer.append(contentsOf: repeatElement(UInt8(ascii: "-"), count: Self.textCount))
        var text = buffer.mutableSpan
        write(to: &text, at: place)
    }

    /// How many characters the text has.
    package static let textCount = 36

    /// Writes the hexadecimal digits of the 36 characters; the four hyphens between them must be there already.
    package func write(to text: inout MutableSpan<UInt8>, at place: Int) {
        let second = hexDigits(UInt32(truncatingIfNeeded: high))
        let third = hexDigits(UInt32(truncatingIfNeeded: low >> 32))
        PushModel.write(hexDigits(UInt32(truncatingIfNeeded: high >> 32)), to: &text, at: place)
        PushModel.write(UInt32(truncatingIfNeeded: second >> 32), to: &text, at: place + 9)
        PushModel.write(UInt32(truncatingIfNeeded: second), to: &text, at: place + 14)
        PushModel.write(UInt32(truncatingIfNeeded: third >> 32), to: &text, at: place + 19)
        PushModel.write(UInt32(truncatingIfNeeded: third), to: &text, at: place + 24)
        PushModel.write(hexDigits(UInt32(truncatingIfNeeded: low)), to: &text, at: place + 28)
    }

    package static func < (left: PushID, right: PushID) -> Bool {
        (left.high, left.low) < (right.high, right.low)
    }
}

extension PushID: CustomStringConvertible {
    package var description: String {
        var text: [UInt8] = []
        text.reserveCapacity(36)
        append(to: &text)
        return String(decoding: text, as: UTF8.self)
    }
}

extension [UInt8] {
    fileprivate init(filling count: Int, _ byte: (Int) -> UInt8) {
        self.init()
        reserveCapacity(count)
        for index in 0..<count { append(byte(index)) }
    }
}

/// The name of an app (a tenant): 1 to 64 of `a-z 0-9 -`, beginning with a letter. It is a routing-key word and a metric label, hence no
/// dots.
package struct AppSlug: Hashable, Sendable, CustomStringConvertible {
    package static let rule = "1 to 64 characters of a-z, 0-9 and -, beginning with a letter"

    package let text: String

    package init?(_ text: String) {
        guard (1...64).contains(text.utf8.count), let first = text.utf8.first, (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(first),
            text.utf8.allSatisfy({
                (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
                    || $0 == UInt8(ascii: "-")
            })
        else { return nil }
        self.text = text
    }

    package init?(_ text: Substring) { self.init(String(text)) }

    package var description: String { text }
}

/// Jobs of one lane never wait behind another lane's. The raw value is the routing key and the queue's last word.
package enum Lane: String, Sendable, CaseIterable {
    case now, soon, bulk
}

/// One value for each lane, without a dictionary on the hot path.
package struct Lanes<Value> {
    private var now: Value
    private var soon: Value
    private var bulk: Value

    package init(_ value: Value) {
        (now, soon, bulk) = (value, value, value)
    }

    package subscript(_ lane: Lane) -> Value {
        get {
            switch lane {
            case .now: now
            case .soon: soon
            case .bulk: bulk
            }
        }
        _modify {
            switch lane {
            case .now: yield &now
            case .soon: yield &soon
            case .bulk: yield &bulk
            }
        }
    }
}

extension Lanes: Sendable where Value: Sendable {}
extension Lanes: Equatable where Value: Equatable {}

/// The deliveries that a hold stops: those of one app, lane or notification, or a part of that.
package enum HoldScope: Hashable, Sendable {
    /// Holds everything of every app.
    case everything
    /// Holds the lane of every app.
    case lane(Lane)
    case app(AppSlug)
    case appLane(AppSlug, Lane)
    case notification(AppSlug, PushID)

    package var app: AppSlug? {
        switch self {
        case .everything, .lane: nil
        case .app(let app), .appLane(let app, _), .notification(let app, _): app
        }
    }

    package var lane: Lane? {
        switch self {
        case .lane(let lane), .appLane(_, let lane): lane
        case .everything, .app, .notification: nil
        }
    }

    package var notification: PushID? {
        if case .notification(_, let notification) = self { notification } else { nil }
    }

    /// - Returns: nil if the parts do not go together: a lane and a notification, or a notification of no app.
    package init?(app: AppSlug?, lane: Lane?, notification: PushID?) {
        switch (app, lane, notification) {
        case (nil, nil, nil): self = .everything
        case (nil, let lane?, nil): self = .lane(lane)
        case (let app?, nil, nil): self = .app(app)
        case (let app?, let lane?, nil): self = .appLane(app, lane)
        case (let app?, nil, let notification?): self = .notification(app, notification)
        case (nil, _, _?), (_?, _?, _?): return nil
        }
    }
}
