internal import CNGHTTP2

/// The client's side of one HTTP/2 connection (RFC 9113), without a socket: bytes in, events and bytes out.
/// A class, because nghttp2 keeps a pointer to it between calls. Not Sendable: one thread.
///
/// The caller's round: `receive` what arrived, drain the events, `submit`, gather the output, drain the events again (sending may close
/// streams, for example those that were reset). A violation by the peer throws nothing: the session queues a GOAWAY with the fitting code
/// (`connectionError`), and is finished once that is sent.
package final class HTTP2ClientSession {
    let wire: WireSession
    var streams = StreamTable<ClientStream> { ClientStream() }
    /// The names kept from answers.
    let wantedHeaders: [[UInt8]]
    let maximumOpenStreams: Int
    let maximumResponseBody: Int
    let maximumHeaderList: Int
    private let headerArray = HeaderArray()

    var events = ClientEventQueue()
    private var spare = ClientEventQueue()
    var bodies = SharedBodies()
    /// The slot of the last header: most callbacks are about the same stream as the one before.
    var recentSlot = 0
    /// Bytes given out so far. See `RequestProgress.complete`.
    package internal(set) var outputPosition: Int64 = 0
    /// The stream whose END_STREAM is in the frame that is being made.
    var endingSlot: Int?
    package internal(set) var openStreams = 0
    /// Bytes of bodies that were submitted and have not been given out.
    package internal(set) var pendingBytes = 0
    /// The peer's present limit, clamped to the session's own maximum.
    package internal(set) var remoteMaxConcurrentStreams: Int
    /// GOAWAY has been received or sent: this connection takes no more requests.
    var isRetired = false
    /// The code of a GOAWAY that this session sent for a violation by the peer; nil if there was none.
    package internal(set) var connectionError: HTTP2ErrorCode?

    /// - Parameters:
    ///   - initialPeerStreamLimit: how many streams may be opened before the peer's first SETTINGS. APNs with provider tokens wants 1.
    ///   - maximumOpenStreams: the limit even if the peer allows more: it bounds this session's memory.
    ///   - wantedHeaders: the names (lower case) kept from answers. Fewer is faster: when none of an answer is kept, nothing is allocated.
    ///   - maximumResponseBody: bytes per answer; a longer one is reset with `cancel`.
    ///   - maximumHeaderList: bytes of an answer's headers (RFC 9113 section 6.5.2); headers beyond it are not kept.
    ///   - memoryLimit: bytes that nghttp2 gets for this session; beyond, its calls fail with NGHTTP2_ERR_NOMEM.
    package init(
        initialPeerStreamLimit: Int = 100, maximumOpenStreams: Int = 4096, wantedHeaders: [String] = [],
        maximumResponseBody: Int = 65_536, maximumHeaderList: Int = 16_384, memoryLimit: Int = .max
    ) throws(HTTP2Error) {
        wire = try WireSession(
            memoryLimit: memoryLimit,
            options: { nghttp2_option_set_peer_max_concurrent_streams($0, UInt32(clamping: initialPeerStreamLimit)) },
            { nghttp2_session_client_new3(&$0, ClientCallbacks.table, nil, $1, &$2) })
        self.maximumOpenStreams = maximumOpenStreams
        self.wantedHeaders = wantedHeaders.map { Array($0.utf8) }
        self.maximumResponseBody = maximumResponseBody
        self.maximumHeaderList = maximumHeaderList
        remoteMaxConcurrentStreams = min(initialPeerStreamLimit, maximumOpenStreams)
        // Unretained: cannot dangle, because this object's end is the session's.
        nghttp2_session_set_user_data(wire.handle, Unmanaged.passUnretained(self).toOpaque())
        try wire.submitSettings([
            nghttp2_settings_entry(NGHTTP2_SETTINGS_ENABLE_PUSH, 0),
            nghttp2_settings_entry(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, maximumHeaderList),
        ])
    }

    /// Whether `submit` would take a request now, and it would leave at once: no request ever waits in nghttp2 (docs/apns.md, Streams).
    package var canSubmit: Bool {
        openStreams < remoteMaxConcurrentStreams && acceptsRequests
    }

    /// False once the connection is retired: by GOAWAY, or because the stream numbers are used up.
    package var acceptsRequests: Bool {
        !isRetired && nghttp2_session_check_request_allowed(wire.handle) != 0
    }

    /// Takes one request. `headers` are copied, `body` is shared; an empty one is none at all.
    /// - Returns: the stream's number.
    package func submit(_ headers: borrowing HeaderBlock, body: [UInt8]) throws(HTTP2Error) -> Int32 {
        guard acceptsRequests else {
            throw HTTP2Error(
                code: .connectionRetired, operation: "nghttp2_submit_request", message: "the connection takes no more requests")
        }
        guard openStreams < remoteMaxConcurrentStreams else {
            throw HTTP2Error(code: .streamLimitReached, operation: "nghttp2_submit_request", message: "\(openStreams) streams are open")
        }
        let slot = streams.allocate()
        var source = nghttp2_data_provider(source: nghttp2_data_source(fd: Int32(slot)), read_callback: ClientCallbacks.readBody)
        let hasBody = !body.isEmpty
        let place = hasBody ? bodies.open(body) : -1
        let stream = headerArray.with(headers, &source) { fields, count, source in
            nghttp2_submit_request(wire.handle, nil, fields, count, hasBody ? source : nil, userData(slot: slot))
        }
        guard stream > 0 else {
            if hasBody { bodies.close(place) }
            streams.release(slot)
            throw .library(Int(stream), "nghttp2_submit_request")
        }
        streams[slot].begin(stream, body: place, bytes: body.count)
        openStreams += 1
        pendingBytes += body.count
        return stream
    }

    /// Gives the session bytes that arrived from the peer.
    /// - Throws: when nghttp2 cannot go on; drop the connection then.
    package func receive(_ bytes: Span<UInt8>) throws(HTTP2Error) {
        try wire.receive(bytes)
    }

    /// The events since the last call, oldest first.
    package func takeEvents() -> [HTTP2ClientEvent] {
        defer { events.removeAll() }
        return events.all
    }

    /// As `takeEvents`, without an allocation, and in short if an answer is only a status. `body` may submit and reset; the events of that
    /// come with the next call.
    package func forEachEvent<E: Error>(_ body: (HTTP2ClientNote) throws(E) -> Void) throws(E) {
        guard !events.isEmpty else { return }
        // Two queues take turns, each moved, never shared: so both keep their storage.
        var batch = ClientEventQueue()
        swap(&batch, &spare)
        swap(&batch, &events)
        defer {
            batch.removeAll()
            swap(&batch, &spare)
        }
        try batch.forEach(body)
    }
}
