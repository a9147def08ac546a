internal import COpenSSL
internal import Glibc

/// Why a TLS or key operation failed: a code to switch on, the operation, and OpenSSL's own text (never key material).
package struct TLSError: Error, Equatable, CustomStringConvertible {
    package enum Code: Equatable, Sendable {
        /// The peer's certificate was refused: unknown authority, wrong name, expired … (`X509_V_ERR_…`, verify(1)).
        case certificate(verifyResult: Int)
        /// The peer refused: it sent a fatal alert.
        case alert
        /// The two sides did not agree, or the received bytes are not TLS.
        case `protocol`
        /// A file could not be read or has the wrong content.
        case file
        /// The key is not a usable ES256 key.
        case key
        /// OpenSSL itself failed.
        case library
    }

    package let code: Code
    /// The call that failed, as the manual names it.
    package let operation: String
    package let message: String

    package init(code: Code, operation: String, message: String) {
        self.code = code
        self.operation = operation
        self.message = message
    }

    package var isAlert: Bool { code == .alert }

    package var description: String { "\(operation): \(message)" }

    /// Says the same error in other words, if there are any.
    func saying(_ words: String?) -> TLSError { words.map { TLSError(code: code, operation: operation, message: $0) } ?? self }
}

extension TLSError {
    /// Empties this thread's error queue (ERR_get_error(3)); the oldest entry names the cause.
    static func last(_ operation: String, code: Code = .library) -> TLSError {
        let first = ERR_get_error()
        ERR_clear_error()
        guard first != 0 else { return TLSError(code: code, operation: operation, message: "no reason given") }
        return TLSError(code: code, operation: operation, message: text(first))
    }

    /// Makes the error as `last` does, and distinguishes alerts from other errors.
    static func lastOfSession(_ operation: String) -> TLSError {
        let first = ERR_peek_error()
        // SSL_R_…ALERT… reasons are 1000 + the alert's number (sslerr.h, SSL_AD_REASON_OFFSET).
        let isAlert = ERR_GET_LIB(first) == ERR_LIB_SSL && ERR_GET_REASON(first) >= SSL_AD_REASON_OFFSET
        return last(operation, code: isAlert ? .alert : .protocol)
    }

    private static func text(_ code: UInt) -> String {
        if let reason = ERR_reason_error_string(code) { return String(cString: reason) }
        // ERR_SYSTEM_ERROR (err.h): the rest is an errno, for which OpenSSL has no text.
        let systemFlag: UInt = 1 << 31
        if code & systemFlag != 0 { return String(cString: strerror(Int32(truncatingIfNeeded: code & (systemFlag - 1)))) }
        return "error \(code)"
    }
}
