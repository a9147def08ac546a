internal import CNGHTTP2

/// The server's side of one HTTP/2 connection (RFC 9113), without a socket: bytes in, events and bytes out.
/// A class, because nghttp2 keeps a pointer to it between calls. Not Sendable: one thread.
///
/// Violations by the peer throw nothing: a stream is reset, or the session queues a GOAWAY (`connectionError`) and is finished once that is
/// sent. Memory is bounded by the settings: streams × (headers + body).
package final class HTTP2ServerSession {
    let wire: WireSession
    var streams = StreamTable<ServerStream> { ServerStream() }
    let limits: HTTP2ServerSettings
    private let headerArray = HeaderArray()

    var events: [HTTP2ServerEvent] = []
    private var spare: [HTTP2ServerEvent] = []
    package internal(set) var openStreams = 0
    /// The code of a GOAWAY that this session sent for a violation by the peer; nil if there was none.
    package internal(set) var connectionError: HTTP2ErrorCode?
    /// The limit on streams. nghttp2 gets none: it would end a connection because of a stream that crosses a new limit on its way.
    var announced: AnnouncedStreams
    /// Open streams that were refused because there were too many.
    var refusedStreams = 0
    /// Numbers that the client can no longer use.
    var skipped = SkippedStreams()
    /// Open streams whose requests were cut.
    var cutStreams = 0
    /// A GOAWAY has named a last stream.
    var isGoingAway = false
    /// The first frame, SETTINGS, was taken: others may bypass nghttp2.
    var isGreeted = false
    /// Whole GOAWAY frames that wait to be sent.
    var notices: [UInt8] = []
    /// The caller has declared streams above this unprocessed.
    var lastProcessed = Int32.max
    /// The code of the caller's own GOAWAY.
    var announcedCode: HTTP2ErrorCode?
    /// The highest stream that was begun: a GOAWAY without a refusal names it.
    package var lastStream: Int32 { nghttp2_session_get_last_proc_stream_id(wire.handle) }

    package init(settings: HTTP2ServerSettings = HTTP2ServerSettings()) throws(HTTP2Error) {
        var limits = settings
        limits.maxHeaderListSize = min(settings.maxHeaderListSize, 0xffff)
        self.limits = limits
        announced = AnnouncedStreams(limits.maxConcurrentStreams)
        wire = try WireSession(
            options: { _ in }, { nghttp2_session_server_new3(&$0, ServerCallbacks.table, nil, $1, &$2) })
        // Unretained: cannot dangle, because this object's end is the session's.
        nghttp2_session_set_user_data(wire.handle, Unmanaged.passUnretained(self).toOpaque())
        try wire.submitSettings([
            nghttp2_settings_entry(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.initialWindowSize),
            nghttp2_settings_entry(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.maxHeaderListSize),
        ])
        if limits.connectionWindow > 65_535 {
            let window = Int32(clamping: limits.connectionWindow)
            try check(Int(nghttp2_session_set_local_window_size(wire.handle, 0, 0, window)), "nghttp2_session_set_local_window_size")
        }
    }

    /// Gives the session bytes that arrived from the peer.
    /// - Throws: when nghttp2 cannot go on (not HTTP/2 at all, a flood); drop the connection then.
    package func receive(_ bytes: Span<UInt8>) throws(HTTP2Error) {
        try wire.receive(bytes)
    }

    /// Lends the events since the last call, oldest first, without an allocation. `body` may answer and reset; the events of that come with
    /// the next call.
    package func forEachEvent<E: Error>(_ body: (HTTP2ServerEvent) throws(E) -> Void) throws(E) {
        guard !events.isEmpty else { return }
        // Two arrays take turns, each moved, never shared: so both keep their storage.
        var batch: [HTTP2ServerEvent] = []
        swap(&batch, &spare)
        swap(&batch, &events)
        defer {
            batch.removeAll(keepingCapacity: true)
            swap(&batch, &spare)
        }
        for event in batch {
            // Later requests of the same read must not be processed either, after the one that caused a GOAWAY.
            if case .request(let stream, _, _) = event, stream > lastProcessed { continue }
            try body(event)
        }
    }

    /// Answers a request, once. `headers` (`:status` first) are copied, `body` is shared; without one the headers end the stream.
    /// - Parameter frameLimit: the most bytes one DATA frame carries.
    /// - Returns: false when the stream is not open any more, or has been answered: the answer is dropped.
    @discardableResult
    package func respond(
        _ stream: Int32, headers: borrowing HeaderBlock, body: [UInt8] = [], frameLimit: Int = .max
    ) throws(HTTP2Error) -> Bool {
        guard let slot = wire.slot(of: stream), !streams[slot].isAnswered, !streams[slot].isRefused else { return false }
        streams[slot].isAnswered = true
        streams[slot].answer = OutgoingBody(bytes: body, frameLimit: max(1, frameLimit))
        var source = nghttp2_data_provider(source: nghttp2_data_source(fd: Int32(slot)), read_callback: ServerCallbacks.readBody)
        let hasBody = !body.isEmpty
        let result = headerArray.with(headers, &source) { fields, count, source in
            nghttp2_submit_response(wire.handle, stream, fields, count, hasBody ? source : nil)
        }
        try check(Int(result), "nghttp2_submit_response")
        return true
    }
}

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

    /// The longest text of a notice, in a frame of the smallest maximum size that a peer may have.
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

extension HTTP2ServerSession {
    /// Announces to the peer how much of a body it may send before more is granted (RFC 9113 section 6.9.2): 0 stops every body that has
    /// not begun. When it is raised again, waiting streams go on.
    package func updateSettings(initialWindowSize: Int) throws(HTTP2Error) {
        announced.announce(announced.latest)
        try wire.submitSettings([nghttp2_settings_entry(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, initialWindowSize)])
    }
}

package enum HTTP2ServerEvent: Sendable {
    /// A whole request: pseudo-headers first. nghttp2 has checked it against RFC 9113 section 8. Do not keep `headers` or `body` beyond the
    /// round: each costs the session an allocation then.
    case request(stream: Int32, headers: HeaderList, body: [UInt8])
    /// `noError` after a whole exchange; any other code may come before an answer was given, or before the whole request was here.
    case streamClosed(stream: Int32, errorCode: HTTP2ErrorCode)
    case pingAck(UInt64)
}

/// The settings that a server session announces to its peer, and its bounds.
package struct HTTP2ServerSettings: Sendable {
    package var maxConcurrentStreams = 1000
    /// The window of each stream, RFC 9113 section 6.9.2.
    package var initialWindowSize = 65_535
    /// The window of all streams together; more than 65,535 is granted with a WINDOW_UPDATE at the start.
    package var connectionWindow = 65_535
    /// Bytes of one request's headers, counted as in RFC 9113 section 6.5.2; at most 65,535. More is reset with `enhanceYourCalm`.
    package var maxHeaderListSize = 8_000
    /// Bytes of one request's body. A request with more is reported at once, with at most a frame more than this, so that it can be
    /// answered; the rest is dropped, and the answer's end ends the stream.
    package var maximumBody = 262_144

    /// The text of the GOAWAY for a client that opens more streams than it has acknowledged.
    package var tooManyStreamsText: [UInt8] = []

    package init() {}
}
