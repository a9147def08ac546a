internal import CNGHTTP2

extension HTTP2ServerSession {
    /// Lends the next frame to send, or returns false when there is none. Frames are small: `gatherOutput` is for the hot path.
    package func withNextOutput(_ body: (Span<UInt8>) -> Void) throws(HTTP2Error) -> Bool {
        let frame = try wire.nextOutput()
        guard !frame.isEmpty else { return false }
        body(frame.span)
        return true
    }

    /// Appends frames to `buffer` until it holds at least `limit` bytes or there are no more, so that they fill whole TLS records.
    /// - Returns: true when the limit ended it and there may be more.
    package func gatherOutput(into buffer: inout [UInt8], limit: Int = 65_536) throws(HTTP2Error) -> Bool {
        while buffer.count < limit {
            let frame = try wire.nextOutput()
            guard !frame.isEmpty else { return false }
            buffer.append(contentsOf: frame)
        }
        return true
    }

    package var wantsRead: Bool { wire.wantsRead }
    package var wantsWrite: Bool { wire.wantsWrite }

    /// The moment to close the socket: nothing is outstanding, and nothing will be.
    package var isFinished: Bool { !wire.wantsRead && !wire.wantsWrite }

    /// Tells the peer another stream limit (RFC 9113 section 5.1.2). Lowering it resets nothing that is open.
    package func updateSettings(maxConcurrentStreams: Int) throws(HTTP2Error) {
        try wire.submitSettings([nghttp2_settings_entry(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, maxConcurrentStreams)])
    }

    /// Sends GOAWAY: streams above `lastStream` are closed with `refusedStream` and not reported, and new ones ignored; the others go on.
    /// May be sent again with a lower number, never with a higher one (RFC 9113 section 6.8).
    /// - Parameter lastStream: a client's stream, or 0; nil for "all that have come", `Int32.max` for a notice that more is to follow:
    ///   without a code and a text new streams are then still served (RFC 9113 section 6.8).
    package func goAway(lastStream: Int32? = nil, code: HTTP2ErrorCode = .noError, debug: [UInt8] = []) throws(HTTP2Error) {
        announcedCode = code
        let last = lastStream ?? self.lastStream
        leaveUnprocessed(above: last)
        try wire.goAway(lastStream: last, code, debug: debug)
    }

    /// Requests with a higher number are not reported any more, as after a GOAWAY with this number, which is to follow.
    package func leaveUnprocessed(above stream: Int32) {
        lastProcessed = min(lastProcessed, stream)
    }

    /// Ends one stream with RST_STREAM; unknown and closed ones are ignored.
    package func reset(_ stream: Int32, _ code: HTTP2ErrorCode) {
        guard wire.slot(of: stream) != nil else { return }
        wire.reset(stream, code)
    }

    /// Asks the peer for a sign of life: `pingAck` brings the number back.
    package func ping(_ number: UInt64) {
        wire.ping(number)
    }
}
