/// The settings that a server session announces to its peer, and its bounds.
package struct HTTP2ServerSettings: Sendable {
    package var maxConcurrentStreams = 1000
    /// Per stream, RFC 9113 section 6.9.2.
    package var initialWindowSize = 65_535
    /// For all streams together; more than 65,535 is granted with a WINDOW_UPDATE at the start.
    package var connectionWindow = 65_535
    /// Bytes of one request's headers, counted as in RFC 9113 section 6.5.2; at most 65,535. More is reset with `enhanceYourCalm`.
    package var maxHeaderListSize = 8_000
    /// Bytes of one request's body. A request with more is reported at once, with at most a frame more than this, so that it can be answered;
    /// the rest is dropped, and the answer's end ends the stream.
    package var maximumBody = 262_144

    /// The text of the GOAWAY for a client that opens more streams than it has acknowledged.
    package var tooManyStreamsText: [UInt8] = []

    package init() {}
}
