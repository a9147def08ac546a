package enum HTTP2ServerEvent: Sendable {
    /// A whole request: pseudo-headers first. nghttp2 has checked it against RFC 9113 section 8. Do not keep `headers` or `body` beyond the
    /// round: each costs the session an allocation then.
    case request(stream: Int32, headers: HeaderList, body: [UInt8])
    /// `noError` after a whole exchange; any other code may come before an answer was given, or before the whole request was here.
    case streamClosed(stream: Int32, errorCode: HTTP2ErrorCode)
    case pingAck(UInt64)
}
