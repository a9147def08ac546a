/// One row. Columns are counted from 0. A NULL, another type or a missing column is a `.decoding` error, never a trap.
package struct PostgresRow: Sendable {
    let result: PostgresResult
    let row: Int

    package var columnCount: Int { result.columnCount }

    package func isNull(_ column: Int) throws(PostgresError) -> Bool {
        try cell(column) { (bytes, _) throws(PostgresError) in bytes == nil }
    }

    package func bool(_ column: Int) throws(PostgresError) -> Bool { try required(column) }
    /// Also reads `int2`.
    package func int32(_ column: Int) throws(PostgresError) -> Int32 { try required(column) }
    /// Also reads `int2` and `int4`.
    package func int64(_ column: Int) throws(PostgresError) -> Int64 { try required(column) }
    /// Also reads `float4`.
    package func double(_ column: Int) throws(PostgresError) -> Double { try required(column) }
    /// Reads `text`, `varchar`, `char(n)`, `name`, `json` and `jsonb`. Cast enums and others to text in the SQL.
    package func text(_ column: Int) throws(PostgresError) -> String { try required(column) }
    package func bytes(_ column: Int) throws(PostgresError) -> [UInt8] { try required(column) }
    package func uuid(_ column: Int) throws(PostgresError) -> PostgresUUID { try required(column) }
    /// UNIX milliseconds, rounded down; `infinity` is an error.
    package func timestampMilliseconds(_ column: Int) throws(PostgresError) -> Int64 {
        try (required(column) as DecodedTimestamp).milliseconds
    }

    package func optionalBool(_ column: Int) throws(PostgresError) -> Bool? { try optional(column) }
    package func optionalInt32(_ column: Int) throws(PostgresError) -> Int32? { try optional(column) }
    package func optionalInt64(_ column: Int) throws(PostgresError) -> Int64? { try optional(column) }
    package func optionalDouble(_ column: Int) throws(PostgresError) -> Double? { try optional(column) }
    package func optionalText(_ column: Int) throws(PostgresError) -> String? { try optional(column) }
    package func optionalBytes(_ column: Int) throws(PostgresError) -> [UInt8]? { try optional(column) }
    package func optionalUUID(_ column: Int) throws(PostgresError) -> PostgresUUID? { try optional(column) }
    package func optionalTimestampMilliseconds(_ column: Int) throws(PostgresError) -> Int64? {
        try (optional(column) as DecodedTimestamp?)?.milliseconds
    }

    // Arrays: one dimension, or empty. The plain forms refuse a NULL element.
    package func boolArray(_ column: Int) throws(PostgresError) -> [Bool] { try elements(column) }
    package func int32Array(_ column: Int) throws(PostgresError) -> [Int32] { try elements(column) }
    package func int64Array(_ column: Int) throws(PostgresError) -> [Int64] { try elements(column) }
    package func doubleArray(_ column: Int) throws(PostgresError) -> [Double] { try elements(column) }
    package func textArray(_ column: Int) throws(PostgresError) -> [String] { try elements(column) }
    package func bytesArray(_ column: Int) throws(PostgresError) -> [[UInt8]] { try elements(column) }
    /// The same without an array for each.
    package func byteStrings(_ column: Int) throws(PostgresError) -> PostgresByteStrings {
        try cell(column) { (bytes, type) throws(PostgresError) in
            guard let bytes else { throw failure(column, "is NULL") }
            guard let strings = PostgresByteStrings(bytes) else { throw failure(column, "is \(type.name), not a flat array of bytea") }
            return strings
        }
    }
    package func uuidArray(_ column: Int) throws(PostgresError) -> [PostgresUUID] { try elements(column) }
    package func timestampArray(_ column: Int) throws(PostgresError) -> [Int64] {
        try (elements(column) as [DecodedTimestamp]).map(\.milliseconds)
    }

    package func optionalBoolArray(_ column: Int) throws(PostgresError) -> [Bool?] { try optionalElements(column) }
    package func optionalInt32Array(_ column: Int) throws(PostgresError) -> [Int32?] { try optionalElements(column) }
    package func optionalInt64Array(_ column: Int) throws(PostgresError) -> [Int64?] { try optionalElements(column) }
    package func optionalDoubleArray(_ column: Int) throws(PostgresError) -> [Double?] { try optionalElements(column) }
    package func optionalTextArray(_ column: Int) throws(PostgresError) -> [String?] { try optionalElements(column) }
    package func optionalBytesArray(_ column: Int) throws(PostgresError) -> [[UInt8]?] { try optionalElements(column) }
    package func optionalUUIDArray(_ column: Int) throws(PostgresError) -> [PostgresUUID?] { try optionalElements(column) }
    package func optionalTimestampArray(_ column: Int) throws(PostgresError) -> [Int64?] {
        try (optionalElements(column) as [DecodedTimestamp?]).map { $0?.milliseconds }
    }
}

extension PostgresRow {
    func required<T: BinaryDecodable>(_ column: Int) throws(PostgresError) -> T {
        guard let value: T = try optional(column) else { throw failure(column, "is NULL") }
        return value
    }

    private func optional<T: BinaryDecodable>(_ column: Int) throws(PostgresError) -> T? {
        try cell(column) { (bytes, type) throws(PostgresError) -> T? in
            guard T.reads(type) else {
                throw failure(column, "is \(type.name), not \(([T.usualType] + T.otherTypes).map(\.name).joined(separator: " or "))")
            }
            guard let bytes else { return nil }
            guard let value = T(binary: bytes, type: type) else { throw failure(column, "holds a \(type.name) that \(T.self) cannot") }
            return value
        }
    }

    func elements<T: BinaryDecodable>(_ column: Int) throws(PostgresError) -> [T] {
        // Where all is well, without an optional for each.
        let present = try cell(column) { (bytes, _) throws(PostgresError) -> [T]? in
            guard let bytes, var reader = BinaryArrayReader(bytes), T.reads(reader.elementType) else { return nil }
            return reader.present()
        }
        if let present { return present }
        var values: [T] = []
        for element: T? in try optionalElements(column) {
            guard let element else { throw failure(column, "has a NULL element") }
            values.append(element)
        }
        return values
    }

    func optionalElements<T: BinaryDecodable>(_ column: Int) throws(PostgresError) -> [T?] {
        try cell(column) { (bytes, type) throws(PostgresError) -> [T?] in
            guard let bytes else { throw failure(column, "is NULL") }
            guard var reader = BinaryArrayReader(bytes), T.reads(reader.elementType) else {
                throw failure(column, "is \(type.name), not a flat array of \(T.usualType.name)")
            }
            guard let values: [T?] = reader.elements() else { throw failure(column, "holds an element that \(T.self) cannot") }
            return values
        }
    }

    /// Checks that the column exists.
    private func cell<R>(
        _ column: Int, _ body: (UnsafeRawBufferPointer?, PostgresType) throws(PostgresError) -> R
    ) throws(PostgresError) -> R {
        guard column >= 0, column < result.columnCount else {
            throw PostgresError(.decoding, operation: "decode", message: "there is no column \(column) among \(result.columnCount)")
        }
        let type = result.columnType(column)
        return try result.withCell(row: row, column: column) { (bytes) throws(PostgresError) -> R in try body(bytes, type) }
    }

    func failure(_ column: Int, _ words: String) -> PostgresError {
        PostgresError(.decoding, operation: "decode", message: "column \(column) (\(result.columnName(column))) \(words)")
    }
}
