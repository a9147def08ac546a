/// A `uuid` as two numbers, most significant first, so that this module needs none of the domain's types.
package struct PostgresUUID: Hashable, Sendable, Comparable {
    package var high: UInt64
    package var low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// As PostgreSQL orders them.
    package static func < (left: PostgresUUID, right: PostgresUUID) -> Bool { (left.high, left.low) < (right.high, right.low) }
}
