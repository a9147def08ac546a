internal import CNGHTTP2

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
