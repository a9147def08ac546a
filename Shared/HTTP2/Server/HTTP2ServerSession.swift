internal import CNGHTTP2

/// The server's side of one HTTP/2 connection (RFC 9113), without a socket: bytes in, events and bytes out.
/// A class, because nghttp2 keeps a pointer to it between calls. Not Sendable: one thread.
///
/// Violations by the peer throw nothing: a stream is reset, or the session queues a GOAWAY (`connectionError`) and is finished once that is sent.
/// Memory is bounded by the settings: streams × (headers + body).
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
