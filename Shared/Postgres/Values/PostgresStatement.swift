/// One SQL command, always a literal: string-built SQL does not compile. Parameters are `$1`, `$2`, …
///
/// It is prepared on first use on each connection, under a name made from its text.
package struct PostgresStatement: Sendable, ExpressibleByStringLiteral {
    let sql: StaticString
    /// FNV-1a of the text: names the prepared statement on the server and in its logs.
    let fingerprint: UInt64

    package init(_ sql: StaticString) {
        self.sql = sql
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        if sql.hasPointerRepresentation {
            for byte in UnsafeBufferPointer(start: sql.utf8Start, count: sql.utf8CodeUnitCount) {
                hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3
            }
        } else {
            hash = (hash ^ UInt64(sql.unicodeScalar.value)) &* 0x0000_0100_0000_01b3
        }
        fingerprint = hash
    }

    package init(stringLiteral sql: StaticString) { self.init(sql) }
}
