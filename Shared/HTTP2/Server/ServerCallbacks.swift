internal import CNGHTTP2

/// nghttp2's callbacks for servers. Each finds the session, and records the event.
enum ServerCallbacks {
    /// Made once and never changed nor freed: every session is made from it.
    nonisolated(unsafe) static let table: OpaquePointer? = {
        var table: OpaquePointer?
        guard nghttp2_session_callbacks_new(&table) == 0, let table else { return nil }
        nghttp2_session_callbacks_set_on_begin_frame_callback(table) { _, head, owner in
            guard let head else { return failure }
            guard nghttp2_frame_type(UInt32(head.pointee.type)) == NGHTTP2_HEADERS else { return 0 }
            return with(owner) { $0.comes(head.pointee.stream_id) }
        }
        nghttp2_session_callbacks_set_on_begin_headers_callback(table) { _, frame, owner in
            guard let frame else { return failure }
            return with(owner) { $0.begin(frame) }
        }
        nghttp2_session_callbacks_set_on_header_callback(table) { _, frame, name, nameLength, value, valueLength, _, owner in
            guard let frame else { return failure }
            let (name, value) = (UnsafeBufferPointer(start: name, count: nameLength), UnsafeBufferPointer(start: value, count: valueLength))
            return with(owner) { $0.header(frame.pointee.hd.stream_id, name, value) }
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(table) { _, frame, owner in
            guard let frame else { return failure }
            return with(owner) { $0.received(frame) }
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(table) { _, _, stream, bytes, count, owner in
            with(owner) { $0.data(stream, UnsafeBufferPointer(start: bytes, count: count)) }
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(table) { _, stream, code, owner in
            with(owner) { $0.closed(stream, HTTP2ErrorCode(rawValue: code)) }
        }
        nghttp2_session_callbacks_set_on_frame_send_callback(table) { _, frame, owner in
            guard let frame else { return failure }
            return with(owner) { $0.sent(frame) }
        }
        return table
    }()

    static let readBody: nghttp2_data_source_read_callback = { _, _, buffer, room, flags, source, owner in
        guard let source else { return Int(failure) }
        var count = 0
        let result = with(owner) { count = $0.streams[Int(source.pointee.fd)].answer.read(into: buffer, room, flags) }
        return result == 0 ? count : Int(result)
    }

    private static let failure = NGHTTP2_ERR_CALLBACK_FAILURE.rawValue

    /// Nothing is retained: the session is alive, because it is inside a call to nghttp2.
    @inline(__always)
    private static func with(_ owner: UnsafeMutableRawPointer?, _ body: (HTTP2ServerSession) -> Void) -> Int32 {
        guard let owner else { return failure }
        Unmanaged<HTTP2ServerSession>.fromOpaque(owner)._withUnsafeGuaranteedRef(body)
        return 0
    }
}

extension HTTP2ServerSession {
    /// nghttp2 takes HEADERS on a number that was skipped for a late frame of a stream that is over; it is a new stream with a lower
    /// number, which ends the connection (RFC 9113 section 5.1.1).
    fileprivate func comes(_ stream: Int32) {
        guard skipped.contains(stream) else { return }
        // Fails only for want of memory.
        _ = nghttp2_session_terminate_session(wire.handle, UInt32(NGHTTP2_PROTOCOL_ERROR.rawValue))
    }

    fileprivate func begin(_ frame: UnsafePointer<nghttp2_frame>) {
        // Trailers belong to a stream that has its slot.
        guard frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST else { return }
        skipped.note(frame.pointee.hd.stream_id)
        let slot = streams.allocate()
        streams[slot].begin(frame.pointee.hd.stream_id)
        openStreams += 1
        // The stream exists by now, so this cannot fail (nghttp2_on_begin_headers_callback).
        _ = nghttp2_session_set_stream_user_data(wire.handle, frame.pointee.hd.stream_id, userData(slot: slot))
        let others = openStreams - 1
        if others - refusedStreams >= announced.latest { turnAway(slot, others) }
    }

    /// One stream too many (RFC 9113 section 5.1.2). If the client cannot know of the limit yet, only the stream is refused; else the
    /// client gets a GOAWAY, and its earlier streams are served.
    private func turnAway(_ slot: Int, _ others: Int) {
        streams[slot].isTooMany = true
        refusedStreams += 1
        guard others >= announced.greatestBelievable else { return refuse(slot, .refusedStream) }
        streams[slot].isRefused = true
        guard !isGoingAway else { return }
        do throws(HTTP2Error) {
            try goAway(lastStream: max(0, streams[slot].stream - 2), code: .refusedStream, debug: limits.tooManyStreamsText)
        } catch {
            // Only for want of memory: the connection is over.
            _ = nghttp2_session_terminate_session(wire.handle, UInt32(NGHTTP2_INTERNAL_ERROR.rawValue))
        }
    }

    fileprivate func header(_ stream: Int32, _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
        guard let slot = wire.slot(of: stream), !streams[slot].isRefused else { return }
        streams[slot].headerBytes += name.count + value.count + 32
        guard streams[slot].headerBytes <= limits.maxHeaderListSize, streams[slot].headers.append(name, value) else {
            refuse(slot, .enhanceYourCalm)
            return
        }
    }

    fileprivate func data(_ stream: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {
        guard let slot = wire.slot(of: stream), !streams[slot].isRefused, !streams[slot].isCut else { return }
        streams[slot].body.append(contentsOf: bytes)
        if streams[slot].body.count > limits.maximumBody { cut(slot) }
    }

    /// Reports the request as far as it has come; the rest of its body is dropped.
    private func cut(_ slot: Int) {
        streams[slot].isCut = true
        cutStreams += 1
        events.append(
            .request(stream: streams[slot].stream, headers: streams[slot].headers, body: streams[slot].body))
    }

    /// A whole answer to a request that was cut: the client may stop sending it (RFC 9113 section 8.1).
    private func endCut(_ frame: UnsafePointer<nghttp2_frame>) {
        let head = frame.pointee.hd
        let kind = nghttp2_frame_type(UInt32(head.type))
        guard kind == NGHTTP2_HEADERS || kind == NGHTTP2_DATA, head.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0,
            let slot = wire.slot(of: head.stream_id), streams[slot].isCut, !streams[slot].isWhole
        else { return }
        wire.reset(head.stream_id, .noError)
    }

    private func refuse(_ slot: Int, _ code: HTTP2ErrorCode) {
        streams[slot].isRefused = true
        wire.reset(streams[slot].stream, code)
    }

    fileprivate func received(_ frame: UnsafePointer<nghttp2_frame>) {
        let head = frame.pointee.hd
        switch nghttp2_frame_type(UInt32(head.type)) {
        case NGHTTP2_HEADERS, NGHTTP2_DATA:
            guard head.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0, let slot = wire.slot(of: head.stream_id),
                !streams[slot].isRefused
            else { return }
            guard !streams[slot].isCut else {
                streams[slot].isWhole = true
                return
            }
            events.append(.request(stream: head.stream_id, headers: streams[slot].headers, body: streams[slot].body))
        case NGHTTP2_SETTINGS:
            guard head.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0 else { return }
            announced.acknowledge()
        case NGHTTP2_PING:
            if head.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0 { events.append(.pingAck(pingNumber(frame.pointee.ping))) }
        default: break
        }
    }

    fileprivate func closed(_ stream: Int32, _ code: HTTP2ErrorCode) {
        guard let slot = wire.slot(of: stream) else { return }
        if streams[slot].isCut { cutStreams -= 1 }
        if streams[slot].isTooMany { refusedStreams -= 1 }
        streams[slot].end()
        streams.release(slot)
        openStreams -= 1
        events.append(.streamClosed(stream: stream, errorCode: code))
    }

    fileprivate func sent(_ frame: UnsafePointer<nghttp2_frame>) {
        if cutStreams > 0 { endCut(frame) }
        guard nghttp2_frame_type(UInt32(frame.pointee.hd.type)) == NGHTTP2_GOAWAY else { return }
        let code = HTTP2ErrorCode(rawValue: frame.pointee.goaway.error_code)
        if code != .noError, code != announcedCode { connectionError = code }
    }
}

/// Numbers of streams that a client left out: the last few gaps. A client that leaves none out costs nothing here.
struct SkippedStreams {
    private static let maximumGaps = 32

    private var gaps: [ClosedRange<Int32>] = []
    private var last: Int32 = -1

    /// A stream was opened.
    mutating func note(_ stream: Int32) {
        defer { last = stream }
        guard last + 2 < stream else { return }
        if gaps.count == Self.maximumGaps { gaps.removeFirst() }
        gaps.append(last + 2...stream - 2)
    }

    func contains(_ stream: Int32) -> Bool {
        !gaps.isEmpty && stream < last && gaps.contains { $0.contains(stream) && (stream & 1) == 1 }
    }
}

/// One request that comes in and the answer that goes out.
struct ServerStream {
    /// 0: the slot is free.
    var stream: Int32 = 0
    var headers = HeaderList()
    /// The size of the headers as RFC 9113 section 6.5.2 counts them.
    var headerBytes = 0
    var body: [UInt8] = []
    var answer = OutgoingBody()
    /// One stream more than there may be.
    var isTooMany = false
    /// Over a bound: it has been reset, and later bytes are dropped.
    var isRefused = false
    var isAnswered = false
    /// The request's body is longer than any may be: it was reported without its end.
    var isCut = false
    /// Cut, and its end has come all the same.
    var isWhole = false

    mutating func begin(_ stream: Int32) {
        self.stream = stream
        headerBytes = 0
        isTooMany = false
        isRefused = false
        isAnswered = false
        isCut = false
        isWhole = false
    }

    /// Large bodies are let go, ordinary ones leave their room to the next user.
    mutating func end() {
        stream = 0
        headers.removeAll()
        if body.capacity > 16_384 { body = [] } else { body.removeAll(keepingCapacity: true) }
        answer.bytes = []
    }
}

/// MAX_CONCURRENT_STREAMS as it was announced and as the client knows it. A new value binds the client once it has acknowledged it (RFC
/// 9113 section 6.5.3); until then it may rely on any value that is on its way, and on the one before.
struct AnnouncedStreams {
    /// The value in the newest SETTINGS.
    private(set) var latest: Int
    /// Before the first acknowledgement a client may open any number (RFC 9113 section 6.5.2).
    private var acknowledged = Int.max
    private var announcedFrames: UInt64 = 0
    private var acknowledgedFrames: UInt64 = 0
    /// The limits on their way, oldest first, without those that a later one exceeds: at most one for each different value.
    private var greatest: [(frame: UInt64, limit: Int)] = []
    /// The values in frames that have not left yet, oldest first.
    private var unsent: [Int] = []

    init(_ limit: Int) {
        latest = limit
        announce(limit)
    }

    /// One SETTINGS frame follows; each carries the limit.
    mutating func announce(_ limit: Int) {
        latest = limit
        announcedFrames += 1
        unsent.append(limit)
        while let last = greatest.last, last.limit <= limit { greatest.removeLast() }
        greatest.append((announcedFrames, limit))
    }

    /// The limit in the next frame.
    mutating func takeUnsent() -> Int { unsent.isEmpty ? latest : unsent.removeFirst() }

    mutating func acknowledge() {
        guard acknowledgedFrames < announcedFrames else { return }
        acknowledgedFrames += 1
        // One on its way exceeds a missing value.
        acknowledged = greatest.first?.frame == acknowledgedFrames ? greatest.removeFirst().limit : 0
    }

    /// The most streams that the client may rely on.
    var greatestBelievable: Int { max(acknowledged, greatest.first?.limit ?? 0) }
}
