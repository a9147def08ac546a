import FoundationEssentials

/// An APNs device token: any even number of hex digits (Apple asks to assume no size: Sending notification requests to APNs).
///
/// Personal data: `description` shows only the last six digits, so that a token cannot reach a log line by accident. Only `hex` gives the
/// whole.
package struct DeviceToken: Hashable, Sendable {
    /// A longer token is refused: far above any seen, and still harmless.
    package static let maximumBytes = 256

    package let bytes: [UInt8]

    /// 64 zeros: a token that no device has.
    package static let ofNoDevice = DeviceToken(checked: [UInt8](repeating: 0, count: 32))

    private init(checked bytes: [UInt8]) { self.bytes = bytes }

    /// - Returns: nil unless `hex` is a positive, even number of hex digits, at most twice ``maximumBytes``.
    package init?(hex: String) { self.init(digits: hex.utf8) }

    /// - Returns: nil unless `hex` is a positive, even number of hex digits, at most twice ``maximumBytes``.
    package init?(hex: Substring) { self.init(digits: hex.utf8) }

    /// Makes the token from bytes of text.
    package init?(asciiHex: ArraySlice<UInt8>) { self.init(digits: asciiHex) }

    private init?(digits: some Collection<UInt8>) {
        guard digits.count.isMultiple(of: 2), (1...Self.maximumBytes).contains(digits.count / 2) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 2)
        var hex = HexAccumulator()
        var isLow = false
        var high: UInt8 = 0
        for digit in digits {
            let nibble = hex.value(digit)
            if isLow { bytes.append(high << 4 | nibble) } else { high = nibble }
            isLow.toggle()
        }
        guard hex.isValid else { return nil }
        self.bytes = bytes
    }

    /// - Returns: nil when there are no bytes or more than ``maximumBytes``.
    package init?(bytes: [UInt8]) {
        guard !bytes.isEmpty, bytes.count <= Self.maximumBytes else { return nil }
        self.bytes = bytes
    }

    /// The whole token in lower case. For APNs and the database only.
    package var hex: String { hexText(bytes) }

    /// The last six digits: enough for a person to recognise, too few to send with.
    package var hint: String { "…" + hexText(bytes.suffix(3)) }

    /// Appends the whole token as lower-case ASCII hex; the hot path writes `:path` with it.
    package func appendHex(to buffer: inout [UInt8]) {
        let place = buffer.count
        buffer.append(contentsOf: repeatElement(0, count: hexCount))
        var text = buffer.mutableSpan
        writeHex(to: &text, at: place)
    }

    /// How many digits ``hex`` has.
    package var hexCount: Int { bytes.count * 2 }

    /// Writes ``hex`` over existing bytes.
    package func writeHex(to text: inout MutableSpan<UInt8>, at place: Int) {
        let bytes = bytes.span
        let whole = bytes.count & ~3
        var place = place
        var index = 0
        while index < whole {
            let word =
                UInt32(bytes[index]) << 24 | UInt32(bytes[index + 1]) << 16 | UInt32(bytes[index + 2]) << 8 | UInt32(bytes[index + 3])
            write(hexDigits(word), to: &text, at: place)
            place += 8
            index += 4
        }
        while index < bytes.count {
            text[place] = hexDigit(bytes[index] >> 4)
            text[place + 1] = hexDigit(bytes[index] & 0x0f)
            place += 2
            index += 1
        }
    }
}

extension DeviceToken {
    /// Eight bytes at a time: an array hashes them one by one, which costs measurable time in tables of many tokens.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(bytes.count)
        var word: UInt64 = 0
        for (index, byte) in bytes.enumerated() {
            word = word << 8 | UInt64(byte)
            if index & 7 == 7 { hasher.combine(word) }
        }
        if bytes.count & 7 != 0 { hasher.combine(word) }
    }
}

extension DeviceToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { hint }
    package var debugDescription: String { hint }
    package var customMirror: Mirror { Mirror(self, children: ["hint": hint]) }
}

/// Apple's id of a broadcast channel: bytes of any count, which Apple writes in base64 (Apple: Sending channel management requests to
/// APNs).
package struct ChannelID: Hashable, Sendable {
    package let text: String
    /// The id as the token of a delivery (``PushJob/isBroadcast``).
    package let asToken: DeviceToken

    /// - Returns: nil unless `text` is base64, as an encoder writes it, of 1 to ``DeviceToken/maximumBytes`` bytes.
    package init?(_ text: String) {
        guard let data = Data(base64Encoded: text), data.base64EncodedString() == text, let token = DeviceToken(bytes: Array(data)) else {
            return nil
        }
        self.text = text
        asToken = token
    }

    package init(_ token: DeviceToken) {
        text = Data(token.bytes).base64EncodedString()
        asToken = token
    }
}
