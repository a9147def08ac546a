/// The parameters of one statement in PostgreSQL's binary format, in one buffer, as `PQsendQueryPrepared` wants them.
struct ParameterBlock {
    private var buffer: [UInt8] = []
    /// The place of each value in `buffer`; nil for NULL.
    private var ranges: [Range<Int>?] = []

    init(_ values: [PostgresValue], operation: String) throws(PostgresError) {
        ranges.reserveCapacity(values.count)
        for value in values {
            let start = buffer.count
            guard value.appendBinary(to: &buffer) else {
                throw PostgresError(
                    .invalidParameter, operation: operation,
                    message: "parameter $\(ranges.count + 1) is outside what \(value.type.name) can hold")
            }
            ranges.append(value.isNull ? nil : start..<buffer.count)
        }
        guard buffer.count < Int(Int32.max), values.count <= Int(UInt16.max) else {
            throw PostgresError(.invalidParameter, operation: operation, message: "the parameters are more than one message can carry")
        }
    }

    var count: Int { ranges.count }

    /// Lends libpq's arguments: pointers, lengths and formats (1 = binary), valid during `body` only.
    func withArguments<R>(
        _ body: (UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<Int32>?, UnsafePointer<Int32>?) -> R
    ) -> R {
        // An empty value needs a pointer too: to libpq, nil is NULL.
        let storage = buffer.isEmpty ? [0] : buffer
        return storage.withUnsafeBytes { raw in
            let base = raw.baseAddress?.assumingMemoryBound(to: CChar.self)
            let pointers = ranges.map { range in range.flatMap { base?.advanced(by: $0.lowerBound) } }
            let lengths = ranges.map { Int32($0?.count ?? 0) }
            let formats = [Int32](repeating: 1, count: ranges.count)
            return body(pointers, lengths, formats)
        }
    }
}
