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
    /// Bytes of bodies that were submitted and have not been given out.
    package internal(set) var pendingBytes = 0
    /// GOAWAY has been received or sent: this connection takes no more requests.
    var isRetired = false
    /// The code of a GOAWAY that this session sent for a violation by the peer; nil if there was none.
    package internal(set) var connectionError: HTTP2ErrorCode?

    /// - Parameters:
    ///   - wantedHeaders: the names (lower case) kept from answers. Fewer is faster: when none of an answer is kept, nothing is allocated.
    ///   - maximumResponseBody: bytes per answer; a longer one is reset with `cancel`.
    ///   - maximumHeaderList: bytes of an answer's headers (RFC 9113 section 6.5.2); headers beyond it are not kept.
    ///   - memoryLimit: bytes that nghttp2 gets for this session; beyond, its calls fail with NGHTTP2_ERR_NOMEM.
    package init(
        wantedHeaders: [String] = [], maximumResponseBody: Int = 65_536, maximumHeaderList: Int = 16_384, memoryLimit: Int = .max
    ) throws(HTTP2Error) {
        wire = try WireSession(
            memoryLimit: memoryLimit,
            // The caller keeps the peer's limit.
            options: { nghttp2_option_set_peer_max_concurrent_streams($0, .max) },
            { nghttp2_session_client_new3(&$0, ClientCallbacks.table, nil, $1, &$2) })
        self.wantedHeaders = wantedHeaders.map { Array($0.utf8) }
        self.maximumResponseBody = maximumResponseBody
        self.maximumHeaderList = maximumHeaderList
        // Unretained: cannot dangle, because this object's end is the session's.
        nghttp2_session_set_user_data(wire.handle, Unmanaged.passUnretained(self).toOpaque())
        try wire.submitSettings([
            nghttp2_settings_entry(NGHTTP2_SETTINGS_ENABLE_PUSH, 0),
            nghttp2_settings_entry(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, maximumHeaderList),
        ])
    }

    /// False after a GOAWAY, sent or received, also one that is still queued; or if the stream numbers are used up.
    package var acceptsRequests: Bool { !isRetired && nghttp2_session_check_request_allowed(wire.handle) != 0 }

    /// Takes one request. `headers` are copied, `body` is shared; an empty one is none at all. The caller keeps the peer's limit of streams
    /// (`HTTP2ClientEvent.settings`): what is above it waits in nghttp2 (docs/apns.md, Streams).
    /// - Returns: the stream's number.
    package func submit(_ headers: borrowing HeaderBlock, body: [UInt8]) throws(HTTP2Error) -> Int32 {
        guard acceptsRequests else {
            throw HTTP2Error(
                code: .connectionRetired, operation: "nghttp2_submit_request", message: "the connection takes no more requests")
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
        pendingBytes += body.count
        return stream
    }

    /// Gives the session bytes that arrived from the peer.
    /// - Throws: when nghttp2 cannot go on; drop the connection then.
    package func receive(_ bytes: Span<UInt8>) throws(HTTP2Error) {
        try wire.receive(bytes)
    }

    /// Lends the events since the last call, oldest first, without an allocation. `body` may submit and reset; the events of that come with
    /// the next call.
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

extension HTTP2ClientSession {
    /// Appends frames to `buffer` until it holds at least `limit` bytes or there are no more, so that they fill whole TLS records.
    /// - Returns: true when the limit ended it and there may be more.
    package func gatherOutput(into buffer: inout [UInt8], limit: Int = 65_536) throws(HTTP2Error) -> Bool {
        while buffer.count < limit {
            let frame = try nextFrame()
            guard !frame.isEmpty else { return false }
            buffer.append(contentsOf: frame)
        }
        return true
    }

    private func nextFrame() throws(HTTP2Error) -> UnsafeBufferPointer<UInt8> {
        let frame = try wire.nextOutput()
        outputPosition += Int64(frame.count)
        if let slot = endingSlot {
            streams[slot].endPosition = outputPosition
            endingSlot = nil
        }
        return frame
    }

    /// Bytes of bodies that the peer takes before it grants more (RFC 9113 section 6.9).
    package var remoteWindow: Int { Int(nghttp2_session_get_remote_window_size(wire.handle)) }

    /// False once the connection is finished on our side.
    package var wantsRead: Bool { wire.wantsRead }
}

extension HTTP2ClientSession {
    /// How much of an open stream's request has been given out; `nothing` for a stream that is not open.
    package func progress(of stream: Int32) -> RequestProgress {
        guard let slot = findSlot(stream) else { return .nothing }
        return progress(slot: slot)
    }

    func progress(slot: Int) -> RequestProgress {
        let position = streams[slot].endPosition
        if position >= 0 { return .complete(position: position) }
        // nghttp2 knows a stream only from the moment its HEADERS are made.
        return wire.slot(of: streams[slot].stream) == nil ? .nothing : .incomplete
    }

    /// Ends a stream: with RST_STREAM, after which `streamClosed` comes once that has been given out; or, if no byte of it has left yet,
    /// without a trace on the wire and with `streamClosed` at once. Unknown and closed streams are ignored.
    package func reset(_ stream: Int32, _ code: HTTP2ErrorCode = .cancel) {
        guard let slot = findSlot(stream) else { return }
        let hasLeft = wire.slot(of: stream) != nil
        // For a request that is still queued this only marks it as cancelled.
        wire.reset(stream, code)
        if !hasLeft { close(slot: slot, code, written: .nothing) }
    }

    /// Tests whether the peer is alive: `pingAck` brings the number back. PINGs overtake everything that waits.
    package func ping(_ number: UInt64) {
        wire.ping(number)
    }

    /// Announces to the peer that this side is leaving. Open streams go on; `wantsRead` is false when they are done.
    package func goAway(_ code: HTTP2ErrorCode = .noError) throws(HTTP2Error) {
        isRetired = true
        try wire.goAway(lastStream: 0, code, debug: [])
    }

    func findSlot(_ stream: Int32) -> Int? {
        guard stream > 0 else { return nil }
        if let slot = wire.slot(of: stream) { return streams[slot].stream == stream ? slot : nil }
        return streams.indices.first { streams[$0].stream == stream }
    }

    func close(slot: Int, _ code: HTTP2ErrorCode, written: RequestProgress) {
        let stream = streams[slot].stream
        streams[slot].stream = 0
        closeBody(slot: slot)
        streams.release(slot)
        let status = streams[slot].bareStatus
        if status == 0 {
            events.append(.streamClosed(stream: stream, errorCode: code, written: written))
        } else if code == .noError, case .complete = written {
            events.append(answered: stream, status: status)
        } else {
            events.append(.headers(stream: stream, status: Int(status), fields: HeaderList(), endStream: true))
            events.append(.streamClosed(stream: stream, errorCode: code, written: written))
        }
    }

    /// The stream has sent its body, or will not send the rest.
    func closeBody(slot: Int) {
        guard streams[slot].body >= 0 else { return }
        bodies.close(streams[slot].body)
        pendingBytes -= streams[slot].bodyLeft
        streams[slot].body = -1
    }
}

/// A client connection's events, oldest first.
///
/// Most answers are a status and no other wanted data: of those it keeps only numbers, one note for answer and end.
struct ClientEventQueue {
    private struct Note {
        /// 0: the next of `others`.
        let stream: Int32
        let status: Int32
    }

    private var notes: [Note] = []
    private var others: [HTTP2ClientEvent] = []

    var isEmpty: Bool { notes.isEmpty }

    mutating func append(_ event: HTTP2ClientEvent) {
        notes.append(Note(stream: 0, status: 0))
        others.append(event)
    }

    /// A whole answer to a whole request: no body, no wanted header, ended without an error.
    mutating func append(answered stream: Int32, status: Int32) {
        notes.append(Note(stream: stream, status: status))
    }

    mutating func removeAll() {
        notes.removeAll(keepingCapacity: true)
        if !others.isEmpty { others.removeAll(keepingCapacity: true) }
    }

    func forEach<E: Error>(_ body: (HTTP2ClientNote) throws(E) -> Void) throws(E) {
        var next = 0
        for note in notes {
            if note.stream != 0 {
                try body(.answered(stream: note.stream, status: Int(note.status)))
            } else {
                try body(.event(others[next]))
                next += 1
            }
        }
    }
}

/// An event, or in short the two events of a stream that had an answer without a body and has ended.
package enum HTTP2ClientNote: Sendable {
    /// The whole answer, of which only the status is wanted.
    case answered(stream: Int32, status: Int)
    case event(HTTP2ClientEvent)
}
