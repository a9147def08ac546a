/// The deliveries of one job in its wire form (`push_job.proto`, field 16), written as they are found: a large audience consists of them,
/// and an object for each would cost too much.
package struct EncodedDeliveries: Equatable, Sendable {
    /// Field after field, each with its key and length.
    private(set) var bytes: [UInt8] = []
    package private(set) var count = 0

    package var isEmpty: Bool { count == 0 }

    package init() {}

    package init(_ deliveries: some Sequence<PushJob.Delivery>) {
        for delivery in deliveries {
            append(
                id: delivery.id, token: delivery.token.bytes[...], environment: delivery.environment, installation: delivery.installation,
                ownerEpoch: delivery.ownerEpoch, environmentTrial: delivery.environmentTrial, earlierOutcome: delivery.earlierOutcome)
        }
    }

    /// - Parameter capacity: Deliveries that will be appended, with tokens of 32 bytes as a rule.
    package init(reservingCapacity capacity: Int) { bytes.reserveCapacity(capacity * 80) }

    /// - Parameter token: A token of 1 to ``DeviceToken/maximumBytes`` bytes.
    package mutating func append(
        id: PushID, token: ArraySlice<UInt8>, environment: APNsEnvironment, installation: PushID, ownerEpoch: Int64,
        environmentTrial: PushJob.EnvironmentTrial, earlierOutcome: PushJob.EarlierOutcome = .none
    ) {
        let epoch = UInt64(bitPattern: ownerEpoch)
        let trial = UInt64(WireEnvironmentTrial(environmentTrial).rawValue)
        let earlier = UInt64(WireEarlierOutcome(earlierOutcome).rawValue)
        let before = Self.fixedCount(id.high) + Self.fixedCount(id.low) + 1 + Self.varintCount(UInt64(token.count))
        let after =
            2 + Self.fixedCount(installation.high) + Self.fixedCount(installation.low) + Self.fieldCount(epoch) + Self.fieldCount(trial)
            + Self.fieldCount(earlier)
        let length = UInt64(before + token.count + after)

        var place = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: 2 + Self.varintCount(length) + before))
        var text = bytes.mutableSpan
        // Field 16, length-delimited: a key of two bytes.
        Self.put(0x82, to: &text, at: &place)
        Self.put(0x01, to: &text, at: &place)
        Self.putVarint(length, to: &text, at: &place)
        Self.putFixed(id.high, key: 0x09, to: &text, at: &place)
        Self.putFixed(id.low, key: 0x11, to: &text, at: &place)
        Self.put(0x1a, to: &text, at: &place)
        Self.putVarint(UInt64(token.count), to: &text, at: &place)

        bytes.append(contentsOf: token)
        place = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: after))
        var rest = bytes.mutableSpan
        Self.put(0x20, to: &rest, at: &place)
        Self.put(UInt8(WireEnvironment(environment).rawValue), to: &rest, at: &place)
        Self.putFixed(installation.high, key: 0x29, to: &rest, at: &place)
        Self.putFixed(installation.low, key: 0x31, to: &rest, at: &place)
        Self.putField(epoch, key: 0x38, to: &rest, at: &place)
        Self.putField(trial, key: 0x40, to: &rest, at: &place)
        Self.putField(earlier, key: 0x48, to: &rest, at: &place)
        count += 1
    }

    /// - Throws: ``MessageError`` if the deliveries could not be read from a job either.
    package func decoded() throws(MessageError) -> [PushJob.Delivery] { try PushJobDecoder.deliveries(bytes) }
}

/// Zero values are not written (proto3).
extension EncodedDeliveries {
    private static func fixedCount(_ value: UInt64) -> Int { value == 0 ? 0 : 9 }
    private static func fieldCount(_ value: UInt64) -> Int { value == 0 ? 0 : 1 + varintCount(value) }
    private static func varintCount(_ value: UInt64) -> Int { value < 0x80 ? 1 : (70 - value.leadingZeroBitCount) / 7 }

    private static func put(_ byte: UInt8, to text: inout MutableSpan<UInt8>, at place: inout Int) {
        text[place] = byte
        place += 1
    }

    private static func putFixed(_ value: UInt64, key: UInt8, to text: inout MutableSpan<UInt8>, at place: inout Int) {
        guard value != 0 else { return }
        put(key, to: &text, at: &place)
        // Least significant byte first.
        write(value.byteSwapped, to: &text, at: place)
        place += 8
    }

    private static func putField(_ value: UInt64, key: UInt8, to text: inout MutableSpan<UInt8>, at place: inout Int) {
        guard value != 0 else { return }
        put(key, to: &text, at: &place)
        putVarint(value, to: &text, at: &place)
    }

    private static func putVarint(_ value: UInt64, to text: inout MutableSpan<UInt8>, at place: inout Int) {
        var left = value
        while left >= 0x80 {
            put(UInt8(truncatingIfNeeded: left) | 0x80, to: &text, at: &place)
            left >>= 7
        }
        put(UInt8(truncatingIfNeeded: left), to: &text, at: &place)
    }
}
