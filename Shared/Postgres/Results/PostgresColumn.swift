/// One column of one row.
package struct PostgresColumn: Sendable {
    let result: PostgresResult
    let row: Int
    let index: Int

    package var isNull: Bool { withBytes { (bytes, _) in bytes == nil } }

    package func failure(_ words: String) -> PostgresError {
        PostgresError(.decoding, operation: "decode", message: "column \(index) (\(result.columnName(index))) \(words)")
    }

    func required<T: BinaryDecodable>() throws(PostgresError) -> T {
        guard let value: T = try optional() else { throw failure("is NULL") }
        return value
    }

    func optional<T: BinaryDecodable>() throws(PostgresError) -> T? {
        try withBytes { (bytes, type) throws(PostgresError) -> T? in
            guard T.reads(type) else {
                throw failure("is \(type.name), not \(([T.usualType] + T.otherTypes).map(\.name).joined(separator: " or "))")
            }
            guard let bytes else { return nil }
            guard let value = T(binary: bytes, type: type) else { throw failure("holds a \(type.name) that \(T.self) cannot") }
            return value
        }
    }

    /// An array of one dimension, or empty, without NULLs.
    func elements<T: BinaryDecodable>() throws(PostgresError) -> [T] {
        // In the usual case, without an optional for each.
        let present = withBytes { (bytes, _) -> [T]? in
            guard let bytes, var reader = BinaryArrayReader(bytes), T.reads(reader.elementType) else { return nil }
            return reader.present()
        }
        if let present { return present }
        var values: [T] = []
        for element: T? in try optionalElements() {
            guard let element else { throw failure("has a NULL element") }
            values.append(element)
        }
        return values
    }

    func optionalElements<T: BinaryDecodable>() throws(PostgresError) -> [T?] {
        try withBytes { (bytes, type) throws(PostgresError) -> [T?] in
            guard let bytes else { throw failure("is NULL") }
            guard var reader = BinaryArrayReader(bytes), T.reads(reader.elementType) else {
                throw failure("is \(type.name), not a flat array of \(T.usualType.name)")
            }
            guard let values: [T?] = reader.elements() else { throw failure("holds an element that \(T.self) cannot") }
            return values
        }
    }

    /// The elements of a `bytea[]` without an array for each.
    func byteStrings() throws(PostgresError) -> PostgresByteStrings {
        try withBytes { (bytes, type) throws(PostgresError) in
            guard let bytes else { throw failure("is NULL") }
            guard let strings = PostgresByteStrings(bytes) else { throw failure("is \(type.name), not a flat array of bytea") }
            return strings
        }
    }

    private func withBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer?, PostgresType) throws(E) -> R) throws(E) -> R {
        let type = result.columnType(index)
        return try result.withCell(row: row, column: index) { (bytes) throws(E) -> R in try body(bytes, type) }
    }
}

/// The elements of a `bytea[]`, side by side in one piece of memory: for thousands of elements, an array each would cost more than all
/// other work on them.
package struct PostgresByteStrings: Sendable {
    private let bytes: [UInt8]
    private let ranges: [Range<Int>]

    package init() { (bytes, ranges) = ([], []) }

    /// nil when the bytes are no flat array of `bytea` without NULLs.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard var reader = BinaryArrayReader(bytes), reader.elementType == .bytes, let ranges = reader.ranges() else { return nil }
        self.bytes = Array(bytes)
        self.ranges = ranges
    }

    package var count: Int { ranges.count }

    /// Like an array, traps outside of 0..<``count``.
    package subscript(index: Int) -> ArraySlice<UInt8> { bytes[ranges[index]] }
}

/// A Swift type that a column is decoded as: `let lane: Lane = try row["lane"]`.
package protocol PostgresDecodable {
    /// - Throws: `.decoding`, with the column's name, if it holds another type, a value that the Swift type cannot hold, or an unexpected
    ///   NULL.
    init(_ column: PostgresColumn) throws(PostgresError)
}

extension Optional: PostgresDecodable where Wrapped: PostgresDecodable {
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try column.isNull ? nil : Wrapped(column) }
}

extension Array: PostgresDecodable where Element: PostgresArrayElement {
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try Element.elements(of: column) }
}

/// An enumeration is read from its text.
extension PostgresDecodable where Self: RawRepresentable, RawValue == String {
    package init(_ column: PostgresColumn) throws(PostgresError) {
        guard let value = Self(rawValue: try String(column)) else { throw column.failure("holds a text that is no \(Self.self)") }
        self = value
    }
}

extension PostgresByteStrings: PostgresDecodable {
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try column.byteStrings() }
}
