/// A frame in the layout of RFC 9113 section 4.1, made by hand, because HTTP/2 libraries refuse to send the frames that these tests need.
struct RawFrame: Sendable {
    enum Kind: UInt8, Sendable {
        case data, headers, priority, resetStream, settings, pushPromise, ping, goAway, windowUpdate, continuation
        case unknown = 0x77
    }

    static let endStream: UInt8 = 1
    static let acknowledgement: UInt8 = 1
    static let endHeaders: UInt8 = 4
    static let padded: UInt8 = 8

    var kind: Kind
    var flags: UInt8 = 0
    var stream: UInt32 = 0
    var payload: [UInt8] = []

    var bytes: [UInt8] {
        let count = UInt32(payload.count)
        return Array(big(count).dropFirst()) + [kind.rawValue, flags] + big(stream) + payload
    }

    /// A request's headers in one frame, or with `flags` 0 the first part of them.
    static func headers(_ stream: UInt32, _ fields: [(String, String)], flags: UInt8 = endHeaders) -> RawFrame {
        RawFrame(kind: .headers, flags: flags, stream: stream, payload: block(fields))
    }

    static func data(_ stream: UInt32, _ text: String, flags: UInt8 = endStream) -> RawFrame {
        RawFrame(kind: .data, flags: flags, stream: stream, payload: Array(text.utf8))
    }

    static func setting(_ id: UInt16, _ value: UInt32) -> RawFrame {
        RawFrame(kind: .settings, payload: [UInt8(id >> 8), UInt8(id & 0xff)] + big(value))
    }

    static func windowUpdate(_ stream: UInt32, _ increment: UInt32) -> RawFrame {
        RawFrame(kind: .windowUpdate, stream: stream, payload: big(increment))
    }

    /// A literal of RFC 7541 section 6.2.2, without Huffman coding, so that the test sends exactly these bytes, even upper case.
    static func block(_ fields: [(String, String)]) -> [UInt8] {
        fields.flatMap { name, value in [0] + string(name) + string(value) }
    }

    private static func string(_ text: String) -> [UInt8] {
        let bytes = Array(text.utf8)
        guard bytes.count >= 127 else { return [UInt8(bytes.count)] + bytes }
        var rest = bytes.count - 127
        var length: [UInt8] = [127]
        while rest >= 128 {
            length.append(UInt8(rest % 128 + 128))
            rest /= 128
        }
        return length + [UInt8(rest)] + bytes
    }
}

func big(_ value: UInt32) -> [UInt8] {
    [UInt8(value >> 24), UInt8(value >> 16 & 0xff), UInt8(value >> 8 & 0xff), UInt8(value & 0xff)]
}
