internal import CNGHTTP2

extension HTTP2ServerSession {
    /// Appends frames to `buffer` until it holds at least `limit` bytes or there are no more, so that they fill whole TLS records.
    /// - Returns: true when the limit ended it and there may be more.
    package func gatherOutput(into buffer: inout [UInt8], limit: Int = 65_536) throws(HTTP2Error) -> Bool {
        if isGreeted, !notices.isEmpty {
            buffer.append(contentsOf: notices)
            notices = []
        }
        while buffer.count < limit {
            let frame = try wire.nextOutput()
            guard !frame.isEmpty else {
                isGreeted = true
                return !notices.isEmpty
            }
            buffer.append(contentsOf: frame)
            if Self.isSettings(frame.span) { addStreamLimit(to: &buffer, at: buffer.count - frame.count) }
        }
        return true
    }

    /// SETTINGS that is no acknowledgement (RFC 9113 section 6.5).
    private static func isSettings(_ frame: Span<UInt8>) -> Bool {
        frame.count >= 9 && UInt32(frame[3]) == NGHTTP2_SETTINGS.rawValue && UInt32(frame[4]) & NGHTTP2_FLAG_ACK.rawValue == 0
    }

    /// - Parameter start: The beginning of the frame, which ends with the buffer.
    private func addStreamLimit(to buffer: inout [UInt8], at start: Int) {
        let id = UInt16(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue)
        buffer += [UInt8(id >> 8), UInt8(id & 0xff)] + Self.bytes(UInt32(clamping: announced.takeUnsent()))
        buffer.replaceSubrange(start..<start + 3, with: Self.bytes(UInt32(buffer.count - start - 9)).dropFirst())
    }

    package var wantsRead: Bool { wire.wantsRead }
    package var wantsWrite: Bool { wire.wantsWrite || !notices.isEmpty }

    /// The moment to close the socket: no frame is outstanding, and none will be.
    package var isFinished: Bool { !wire.wantsRead && !wantsWrite }

    /// Announces another stream limit to the peer (RFC 9113 section 5.1.2). Lowering it resets no open stream.
    package func updateSettings(maxConcurrentStreams: Int) throws(HTTP2Error) {
        announced.announce(maxConcurrentStreams)
        try wire.submitSettings([])
    }

    /// Sends GOAWAY: streams above `lastStream` are closed with `refusedStream` and not reported, and new ones ignored; the others go on.
    /// May be sent again with a lower number, never with a higher one (RFC 9113 section 6.8).
    /// - Parameter lastStream: a client's stream, or 0; an even number means the one below it. nil for "all that have come", `Int32.max`
    ///   for a notice that more is to follow: until then new streams are served. After any other number a notice has no effect.
    package func goAway(lastStream: Int32? = nil, code: HTTP2ErrorCode = .noError, debug: [UInt8] = []) throws(HTTP2Error) {
        let given = lastStream ?? self.lastStream
        guard given < .max else { return give(noticeOf: code, debug) }
        announcedCode = code
        isGoingAway = true
        // A notice goes first, or would raise the number again.
        if !isGreeted { notices = [] }
        // Only a client's own numbers are allowed, and they are odd.
        let last = given > 0 && given % 2 == 0 ? given - 1 : given
        leaveUnprocessed(above: last)
        try wire.goAway(lastStream: last, code, debug: debug)
    }

    /// A notice bypasses nghttp2, which takes no new streams after any GOAWAY that has a code or a text.
    private func give(noticeOf code: HTTP2ErrorCode, _ debug: [UInt8]) {
        guard !isGoingAway else { return }
        let text = debug.prefix(Self.longestNoticeText)
        let (length, type) = (UInt32(8 + text.count), UInt32(NGHTTP2_GOAWAY.rawValue))
        // RFC 9113 sections 4.1 and 6.8: length and type, flags and connection's stream 0, last stream, code, text.
        for word in [length << 8 | type, 0] { notices += Self.bytes(word) }
        notices.append(0)
        for word in [UInt32(Int32.max), code.rawValue] { notices += Self.bytes(word) }
        notices += text
    }

    private static func bytes(_ word: UInt32) -> [UInt8] {
        stride(from: UInt32(24), through: 0, by: -8).map { UInt8(truncatingIfNeeded: word >> $0) }
    }

    /// Of the smallest maximum frame size that a peer may have.
    private static let longestNoticeText = 16_384 - 8

    /// Requests with a higher number are not reported any more, as after a GOAWAY with this number, which must follow.
    package func leaveUnprocessed(above stream: Int32) {
        lastProcessed = min(lastProcessed, stream)
    }

    /// Ends one stream with RST_STREAM; unknown and closed ones are ignored.
    package func reset(_ stream: Int32, _ code: HTTP2ErrorCode) {
        guard wire.slot(of: stream) != nil else { return }
        wire.reset(stream, code)
    }

    /// Tests whether the peer is alive: `pingAck` brings the number back.
    package func ping(_ number: UInt64) {
        wire.ping(number)
    }
}
