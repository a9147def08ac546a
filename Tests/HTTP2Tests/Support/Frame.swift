/// A frame in the layout of RFC 9113 section 4.1. The tests write and read frames by hand, so that they do not check nghttp2 with nghttp2.
struct Frame: Equatable {
    enum Kind: UInt8 { case data, headers, priority, resetStream, settings, pushPromise, ping, goAway, windowUpdate, continuation }

    var kind: Kind
    var flags: UInt8 = 0
    var stream: Int32 = 0
    var payload: [UInt8] = []

    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    static let endStream: UInt8 = 1
    static let acknowledgement: UInt8 = 1
    static let endHeaders: UInt8 = 4

    var bytes: [UInt8] {
        let count = payload.count
        return [UInt8(count >> 16 & 0xff), UInt8(count >> 8 & 0xff), UInt8(count & 0xff), kind.rawValue, flags]
            + big(UInt32(bitPattern: stream))
            + payload
    }

    /// Reads whole frames; `preface` is skipped.
    static func all(in bytes: [UInt8]) -> [Frame] {
        var rest = bytes.starts(with: preface) ? bytes.dropFirst(preface.count) : bytes[...]
        var frames: [Frame] = []
        while rest.count >= 9 {
            let head = Array(rest.prefix(9))
            let count = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            guard rest.count >= 9 + count, let kind = Kind(rawValue: head[3]) else { return frames }
            frames.append(
                Frame(
                    kind: kind, flags: head[4], stream: Int32(bitPattern: number(head[5..<9])),
                    payload: Array(rest.dropFirst(9).prefix(count))))
            rest = rest.dropFirst(9 + count)
        }
        return frames
    }

    static func settings(_ entries: [(id: UInt16, value: UInt32)] = []) -> Frame {
        Frame(kind: .settings, payload: entries.flatMap { [UInt8($0.id >> 8), UInt8($0.id & 0xff)] + big($0.value) })
    }

    static func goAway(lastStream: Int32, code: UInt32, debug: String = "") -> Frame {
        Frame(kind: .goAway, payload: big(UInt32(bitPattern: lastStream)) + big(code) + Array(debug.utf8))
    }

    static func reset(_ stream: Int32, code: UInt32) -> Frame {
        Frame(kind: .resetStream, stream: stream, payload: big(code))
    }

    /// `:status: 200` is entry 8 of HPACK's static table (RFC 7541 appendix A).
    static func ok(_ stream: Int32, endStream: Bool) -> Frame {
        Frame(kind: .headers, flags: endHeaders | (endStream ? Self.endStream : 0), stream: stream, payload: [0x88])
    }

    /// The error code of a GOAWAY or RST_STREAM.
    var errorCode: UInt32? {
        switch kind {
        case .goAway: Self.number(payload[4..<8])
        case .resetStream: Self.number(payload[0..<4])
        default: nil
        }
    }

    private static func number(_ bytes: some Sequence<UInt8>) -> UInt32 {
        bytes.reduce(0) { $0 << 8 | UInt32($1) }
    }
}

private func big(_ value: UInt32) -> [UInt8] {
    [UInt8(value >> 24), UInt8(value >> 16 & 0xff), UInt8(value >> 8 & 0xff), UInt8(value & 0xff)]
}
