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
    /// Its headers, but not its end: the peer has not got a whole request.
    case incomplete
    /// All of it. `position` is its end in the connection's outgoing bytes: if less than that was sent, the peer cannot have it.
    case complete(position: Int64)
}
