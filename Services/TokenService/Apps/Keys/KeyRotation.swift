/// A request to rotate a key.
package struct KeyRotation: Equatable, Sendable {
    package static let defaultOverlapSeconds: Int64 = 86_400
    package static let overlapSeconds: ClosedRange<Int64> = 0...(30 * 86_400)

    /// The longest further life of the old key: a rotation never extends its expiry.
    package var overlapSeconds: Int64
    /// The new key's; UNIX milliseconds; nil for never.
    package var expiresAt: Int64?

    package init(overlapSeconds: Int64 = defaultOverlapSeconds, expiresAt: Int64? = nil) {
        self.overlapSeconds = overlapSeconds
        self.expiresAt = expiresAt
    }

    /// Both, as they are now.
    package struct Result: Equatable, Sendable {
        package var new: APIKey
        package var old: APIKey
    }
}
