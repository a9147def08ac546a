internal import CNGHTTP2

/// nghttp2's callbacks for clients. Each finds the session, and records the event.
enum ClientCallbacks {
    /// Made once and never changed nor freed: every session is made from it.
    nonisolated(unsafe) static let table: OpaquePointer? = {
        var table: OpaquePointer?
        guard nghttp2_session_callbacks_new(&table) == 0, let table else { return nil }
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
        let result = with(owner) { count = $0.readBody(slot: Int(source.pointee.fd), buffer, room, flags) }
        return result == 0 ? count : Int(result)
    }

    private static let failure = NGHTTP2_ERR_CALLBACK_FAILURE.rawValue

    /// Nothing is retained: the session is alive, because it is inside a call to nghttp2.
    @inline(__always)
    private static func with(_ owner: UnsafeMutableRawPointer?, _ body: (HTTP2ClientSession) -> Void) -> Int32 {
        guard let owner else { return failure }
        Unmanaged<HTTP2ClientSession>.fromOpaque(owner)._withUnsafeGuaranteedRef(body)
        return 0
    }
}

extension HTTP2ClientSession {
    fileprivate func header(_ stream: Int32, _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
        if name.count == 7, name[0] == UInt8(ascii: ":") {
            guard let slot = wire.slot(of: stream) else { return }
            recentSlot = slot
            // nghttp2 lets no other pseudo-header than :status into an answer, and no other value than three digits.
            streams[slot].status = value.reduce(0) { $0 * 10 + Int($1 & 0x0f) }
            streams[slot].fieldBytes = 0
            streams[slot].fields.removeAll()
            return
        }
        for wanted in wantedHeaders where wanted.count == name.count && name.elementsEqual(wanted) {
            guard let slot = openSlot(of: stream) else { return }
            let size = name.count + value.count + 32
            guard streams[slot].fieldBytes + size <= maximumHeaderList else { return }
            if streams[slot].fields.append(name, value) { streams[slot].fieldBytes += size }
        }
    }

    /// The slot of the stream of the last callback.
    @inline(__always)
    private func openSlot(of stream: Int32) -> Int? {
        if streams.indices.contains(recentSlot), streams[recentSlot].stream == stream { return recentSlot }
        return wire.slot(of: stream)
    }

    fileprivate func received(_ frame: UnsafePointer<nghttp2_frame>) {
        let head = frame.pointee.hd
        switch nghttp2_frame_type(UInt32(head.type)) {
        case NGHTTP2_HEADERS: receivedHeaders(head)
        case NGHTTP2_SETTINGS:
            guard head.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) == 0 else { return }
            let limit = nghttp2_session_get_remote_settings(wire.handle, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
            events.append(.settings(maxConcurrentStreams: Int(limit)))
        case NGHTTP2_GOAWAY: receivedGoAway(frame.pointee.goaway)
        case NGHTTP2_PING:
            guard head.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0 else { return }
            events.append(.pingAck(pingNumber(frame.pointee.ping)))
        default: break
        }
    }

    private func receivedHeaders(_ head: nghttp2_frame_hd) {
        guard let slot = openSlot(of: head.stream_id) else { return }
        let status = streams[slot].status
        // Interim answers are not reported; trailers come after the status was reported (RFC 9113 section 8.1).
        guard status >= 200 else { return }
        let endStream = head.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
        streams[slot].status = 0
        if endStream, streams[slot].fields.isEmpty, streams[slot].endPosition >= 0 {
            // Both sides are done: nghttp2 closes the stream right after this.
            streams[slot].bareStatus = Int32(status)
        } else {
            events.append(.headers(stream: head.stream_id, status: status, fields: streams[slot].fields, endStream: endStream))
        }
    }

    private func receivedGoAway(_ frame: nghttp2_goaway) {
        isRetired = true
        let debug = [UInt8](UnsafeBufferPointer(start: frame.opaque_data, count: frame.opaque_data_len))
        let code = HTTP2ErrorCode(rawValue: frame.error_code)
        events.append(.goAway(lastStream: frame.last_stream_id, errorCode: code, debug: debug))
        // nghttp2 closes the sent streams above the last one itself, right after this. Those that have not left would hang in its queue
        // until a slot is free, which may be never (docs/apns.md, Streams).
        for slot in streams.indices where streams[slot].stream != 0 && wire.slot(of: streams[slot].stream) == nil {
            wire.reset(streams[slot].stream, .refusedStream)
            close(slot: slot, .refusedStream, written: .nothing)
        }
    }

    fileprivate func data(_ stream: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {
        guard let slot = wire.slot(of: stream) else { return }
        streams[slot].receivedBytes += bytes.count
        guard streams[slot].receivedBytes <= maximumResponseBody else {
            wire.reset(stream, .cancel)
            return
        }
        events.append(.data(stream: stream, bytes: Array(bytes)))
    }

    fileprivate func closed(_ stream: Int32, _ code: HTTP2ErrorCode) {
        // A stream that was given up before it left has been reported already, and its slot may have a new user.
        guard let slot = openSlot(of: stream), streams[slot].stream == stream else { return }
        close(slot: slot, code, written: progress(slot: slot))
    }

    fileprivate func sent(_ frame: UnsafePointer<nghttp2_frame>) {
        let head = frame.pointee.hd
        switch nghttp2_frame_type(UInt32(head.type)) {
        case NGHTTP2_HEADERS where head.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0:
            endingSlot = wire.slot(of: head.stream_id)
        case NGHTTP2_GOAWAY where frame.pointee.goaway.error_code != HTTP2ErrorCode.noError.rawValue:
            connectionError = HTTP2ErrorCode(rawValue: frame.pointee.goaway.error_code)
        default: break
        }
    }

    @inline(__always)
    fileprivate func readBody(
        slot: Int, _ buffer: UnsafeMutablePointer<UInt8>?, _ room: Int, _ flags: UnsafeMutablePointer<UInt32>?
    ) -> Int {
        // nghttp2 never reads the body of a request that was given up while it waited. If it does, there is none.
        guard streams[slot].body >= 0 else {
            flags?.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue)
            return 0
        }
        let count = bodies.read(streams[slot].body, &streams[slot].bodyLeft, into: buffer, room)
        pendingBytes -= count
        if streams[slot].bodyLeft == 0 {
            flags?.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue)
            closeBody(slot: slot)
            endingSlot = slot
        }
        return count
    }
}

/// An event from the peer, or the end of a request.
package enum HTTP2ClientEvent: Sendable {
    /// The final answer's headers (1xx answers are not reported). `fields` holds only the names that the session was configured to keep.
    /// With `endStream` there is no body.
    case headers(stream: Int32, status: Int, fields: HeaderList, endStream: Bool)
    case data(stream: Int32, bytes: [UInt8])
    /// The last event of a stream: `noError` after a whole answer, `refusedStream` when the peer certainly has not processed it.
    /// - `written`: how much of the request had left this session. Only `complete` leaves room for doubt about the peer's action.
    case streamClosed(stream: Int32, errorCode: HTTP2ErrorCode, written: RequestProgress)
    /// SETTINGS arrived. `maxConcurrentStreams` is the present limit; 2^32 - 1 if the peer sets none (RFC 9113 section 6.5.2).
    case settings(maxConcurrentStreams: Int)
    /// No new requests from now on. The closed streams follow as `streamClosed`: those above `lastStream` at once with `refusedStream`,
    /// as well as those that had not left; the others as their answers come. May come twice (RFC 9113 section 6.8).
    case goAway(lastStream: Int32, errorCode: HTTP2ErrorCode, debug: [UInt8])
    case pingAck(UInt64)
}

/// How much of a request this session has given out for sending (`gatherOutput`).
package enum RequestProgress: Sendable, Equatable {
    /// None: the peer cannot know of it.
    case nothing
    /// The request's headers have been sent, but not its end: the peer has not got a whole request.
    case incomplete
    /// All of it. `position` is its end in the connection's outgoing bytes: if less than that was sent, the peer cannot have it.
    case complete(position: Int64)
}

/// One request and its answer.
struct ClientStream {
    /// 0: the slot is free.
    var stream: Int32 = 0
    /// The body's place among the session's bodies; -1 when all of it has been sent, or there is none.
    var body = -1
    /// How much of the body has not been given out.
    var bodyLeft = 0
    /// The position of the request's end in the output; -1 while it has not been given out.
    var endPosition: Int64 = -1
    var status = 0
    var fields = HeaderList()
    var fieldBytes = 0
    var receivedBytes = 0
    /// The status of an answer that is reported together with its end; 0: there is none.
    var bareStatus: Int32 = 0

    mutating func begin(_ stream: Int32, body: Int, bytes: Int) {
        self.stream = stream
        self.body = body
        bodyLeft = bytes
        endPosition = -1
        status = 0
        receivedBytes = 0
        bareStatus = 0
    }
}
