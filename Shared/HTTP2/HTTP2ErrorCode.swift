internal import CNGHTTP2

/// Why a stream or a connection ended (RFC 9113 section 7). A struct, because a peer may send any number.
package struct HTTP2ErrorCode: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    package let rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let noError = HTTP2ErrorCode(rawValue: 0)
    package static let protocolError = HTTP2ErrorCode(rawValue: 1)
    package static let internalError = HTTP2ErrorCode(rawValue: 2)
    package static let flowControlError = HTTP2ErrorCode(rawValue: 3)
    package static let settingsTimeout = HTTP2ErrorCode(rawValue: 4)
    package static let streamClosed = HTTP2ErrorCode(rawValue: 5)
    package static let frameSizeError = HTTP2ErrorCode(rawValue: 6)
    /// The request was not processed at all: it is safe to send again (section 8.7).
    package static let refusedStream = HTTP2ErrorCode(rawValue: 7)
    package static let cancel = HTTP2ErrorCode(rawValue: 8)
    package static let compressionError = HTTP2ErrorCode(rawValue: 9)
    package static let enhanceYourCalm = HTTP2ErrorCode(rawValue: 11)

    /// `REFUSED_STREAM`; numbers without a name are `unknown`.
    package var description: String { String(cString: nghttp2_http2_strerror(rawValue)) }
}
