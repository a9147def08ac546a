internal import CNGHTTP2

/// Why a session refused a call. A violation by the peer ends in an event or in the session's own GOAWAY, never here, unless nghttp2 can no
/// longer go on (`.library`): then drop the connection.
package struct HTTP2Error: Error, Equatable, CustomStringConvertible {
    package enum Code: Equatable, Sendable {
        /// nghttp2's own number (`NGHTTP2_ERR_…`). Not about the request: nghttp2_submit_request(3) names out of memory, used-up stream
        /// numbers and misuse of the library.
        case library(Int32)
        /// GOAWAY was sent or received, or the stream numbers are used up: this connection takes no more requests.
        case connectionRetired
    }

    package let code: Code
    /// The call, as nghttp2's manual names it.
    package let operation: String
    package let message: String

    package var description: String { "\(operation): \(message)" }

    /// Whether a call failed for bytes of the peer: it sent so much that nghttp2 gave up. This process's own are a lack of memory and a
    /// callback that failed.
    package var isPeersFault: Bool {
        guard case .library(let number) = code else { return false }
        return number != NGHTTP2_ERR_NOMEM.rawValue && number != NGHTTP2_ERR_CALLBACK_FAILURE.rawValue
    }
}

extension HTTP2Error {
    static func library(_ code: Int, _ operation: String) -> HTTP2Error {
        let code = Int32(clamping: code)
        return HTTP2Error(code: .library(code), operation: operation, message: String(cString: nghttp2_strerror(code)))
    }
}

/// Turns nghttp2's negative numbers into errors.
@inline(__always)
@discardableResult
func check(_ result: Int, _ operation: StaticString) throws(HTTP2Error) -> Int {
    if result < 0 { throw .library(result, "\(operation)") }
    return result
}
