/// What the peer, or the end of a request, has to say.
package enum HTTP2ClientEvent: Sendable {
    /// The final answer's headers (1xx answers are not told). `fields` holds only the names that the session was told to keep.
    /// With `endStream` there is no body.
    case headers(stream: Int32, status: Int, fields: HeaderList, endStream: Bool)
    case data(stream: Int32, bytes: [UInt8])
    /// The last word on a stream: `noError` after a whole answer, `refusedStream` when the peer certainly has not processed it.
    /// - `written`: how much of the request had left this session. Only `complete` leaves room for doubt about what the peer did.
    case streamClosed(stream: Int32, errorCode: HTTP2ErrorCode, written: RequestProgress)
    /// SETTINGS arrived. `maxConcurrentStreams` is what now holds, already clamped to the session's own maximum.
    case settings(maxConcurrentStreams: Int)
    /// No new requests from now on. The closed streams follow as `streamClosed`: those above `lastStream` at once with `refusedStream`,
    /// as well as those that had not left; the others as their answers come. May come twice (RFC 9113 section 6.8).
    case goAway(lastStream: Int32, errorCode: HTTP2ErrorCode, debug: [UInt8])
    case pingAck(UInt64)
}

/// How much of a request this session has given out for sending (`withNextOutput`).
package enum RequestProgress: Sendable, Equatable {
    /// Nothing: the peer cannot know of it.
    case nothing
    /// Its headers, but not its end: the peer has not got a whole request.
    case incomplete
    /// All of it. `position` is where in the connection's outgoing bytes it ended: if less than that was sent, the peer cannot have it.
    case complete(position: Int64)
}
