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
