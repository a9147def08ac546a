/// A sender's `Idempotency-Key` with what it was used for: one key of one caller in one app, one notification, for 24 hours.
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

/// Another process works on a request with the key, for longer than one waits.
package struct IdempotencyInProgress: Error {}

/// The key was used before, for something else.
package struct IdempotencyMismatch: Error {}
