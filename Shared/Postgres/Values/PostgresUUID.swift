/// A `uuid` as two numbers, most significant first, so that this module needs none of the domain's types.
package struct PostgresUUID: Hashable, Sendable {
    package var high: UInt64
    package var low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
}
