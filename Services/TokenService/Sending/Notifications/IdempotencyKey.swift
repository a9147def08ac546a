import OpenSSL
import TokenServiceApps
package import TokenServiceKit

/// A sender's `Idempotency-Key` with its use: one key of one caller in one app, one notification, today and tomorrow (UTC).
package struct IdempotencyKey: Equatable, Sendable {
    package static let maximumBytes = 255

    package let caller: String
    package let key: String
    /// SHA-256 of the request's body.
    package let fingerprint: [UInt8]

    package init(caller: String, key: String, fingerprint: [UInt8]) {
        self.caller = caller
        self.key = key
        self.fingerprint = fingerprint
    }
}

extension IdempotencyKey {
    /// A key as a sender states it.
    /// - Parameters:
    ///   - place: Its place in the request.
    ///   - body: The body that it is used for.
    /// - Throws: ``APIError`` where it is empty, too long or not printable ASCII.
    init(_ key: String, at place: String, of caller: Caller, body: [UInt8]) throws(APIError) {
        guard (1...Self.maximumBytes).contains(key.utf8.count), key.utf8.allSatisfy({ (0x20...0x7e).contains($0) }) else {
            throw APIError.invalid(place, .invalidIdempotencyKey, "must be 1 to \(Self.maximumBytes) printable ASCII characters")
        }
        self.init(caller: caller.keyID, key: key, fingerprint: Digest.sha256(body))
    }
}

/// Another process works on a request with the key, for longer than a caller waits.
package struct IdempotencyInProgress: ProblemError {
    package var problem: APIError {
        APIError(
            .idempotencyInProgress,
            "another request with this key is still being worked on; repeat this one to learn what became of it")
    }
}

/// The key was used before, for another request.
package struct IdempotencyMismatch: ProblemError {
    package var problem: APIError {
        APIError(.idempotencyKeyReused, "this key was used with another body today or yesterday (UTC)")
    }
}
