/// What a key's rotation is asked for.
package struct KeyRotation: Equatable, Sendable {
    package static let defaultOverlapSeconds: Int64 = 86_400
    package static let overlapSeconds: ClosedRange<Int64> = 0...(30 * 86_400)

    /// How long the old key lives on, at most: its expiry is never moved away.
    package var overlapSeconds: Int64
    /// The new key's; UNIX milliseconds; nil for never.
    package var expiresAt: Int64?

    package init(overlapSeconds: Int64 = defaultOverlapSeconds, expiresAt: Int64? = nil) {
        self.overlapSeconds = overlapSeconds
        self.expiresAt = expiresAt
    }

    package enum Result: Equatable, Sendable {
        /// Both, as they are now.
        case rotated(new: APIKey, old: APIKey)
        /// The key is over: nothing to hand over.
        case over(APIKey.State)
        /// A key that replaces it is live: more than two at once are never needed, and are soon forgotten.
        case alreadyRotated(successor: String)
    }
}
