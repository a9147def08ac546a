/// PostgreSQL's binary formats: network byte order, as its `…_send` functions write them (src/backend/utils/adt).
extension PostgresValue {
    /// - Returns: false when the value is outside its type's range.
    func appendBinary(to buffer: inout [UInt8]) -> Bool {
        switch self {
        case .null: return true
        case .bool(let value): return value.appendElement(to: &buffer)
        case .int32(let value): return value.appendElement(to: &buffer)
        case .int64(let value): return value.appendElement(to: &buffer)
        case .double(let value): return value.appendElement(to: &buffer)
        case .text(let value): return value.appendElement(to: &buffer)
        case .bytes(let value): return value.appendElement(to: &buffer)
        case .uuid(let value): return value.appendElement(to: &buffer)
        case .timestamp(let milliseconds): return TimestampElement(milliseconds).appendElement(to: &buffer)
        case .jsonb(let value): return JSONBElement(value).appendElement(to: &buffer)
        default: return appendArray(to: &buffer)
        }
    }

    private func appendArray(to buffer: inout [UInt8]) -> Bool {
        switch self {
        case .boolArray(let values): append(values, of: .bool, to: &buffer)
        case .int32Array(let values): append(values, of: .int32, to: &buffer)
        case .int64Array(let values): append(values, of: .int64, to: &buffer)
        case .doubleArray(let values): append(values, of: .double, to: &buffer)
        case .textArray(let values): append(values, of: .text, to: &buffer)
        case .bytesArray(let values): append(values, of: .bytes, to: &buffer)
        case .uuidArray(let values): append(values, of: .uuid, to: &buffer)
        case .timestampArray(let values): append(values.lazy.map(TimestampElement.init), of: .timestamp, to: &buffer)
        case .optionalBoolArray(let values): append(values, of: .bool, to: &buffer)
        case .optionalInt32Array(let values): append(values, of: .int32, to: &buffer)
        case .optionalInt64Array(let values): append(values, of: .int64, to: &buffer)
        case .optionalDoubleArray(let values): append(values, of: .double, to: &buffer)
        case .optionalTextArray(let values): append(values, of: .text, to: &buffer)
        case .optionalBytesArray(let values): append(values, of: .bytes, to: &buffer)
        case .optionalUUIDArray(let values): append(values, of: .uuid, to: &buffer)
        case .optionalTimestampArray(let values): append(values.lazy.map { $0.map(TimestampElement.init) }, of: .timestamp, to: &buffer)
        default: false
        }
    }

    /// `array_send`: dimensions, whether there are NULLs, the element's type; then length and lower bound; then each element
    /// behind its length, -1 for NULL.
    private func append<Values: Collection>(_ values: Values, of element: PostgresType, to buffer: inout [UInt8]) -> Bool
    where Values.Element: ArrayElement {
        buffer.appendInteger(Int32(values.isEmpty ? 0 : 1))
        buffer.appendInteger(Int32(values.contains(where: \.isNull) ? 1 : 0))
        buffer.appendInteger(element.oid)
        guard !values.isEmpty else { return true }
        buffer.appendInteger(Int32(clamping: values.count))
        buffer.appendInteger(Int32(1))
        for value in values {
            if value.isNull {
                buffer.appendInteger(Int32(-1))
                continue
            }
            buffer.appendInteger(Int32(clamping: value.byteCount))
            guard value.appendElement(to: &buffer) else { return false }
        }
        return true
    }
}

/// A value in a PostgreSQL array, or alone as a parameter.
private protocol ArrayElement {
    var isNull: Bool { get }
    /// How many bytes ``appendElement(to:)`` appends.
    var byteCount: Int { get }
    /// Appends the value without its length; false when it is outside its type's range.
    func appendElement(to buffer: inout [UInt8]) -> Bool
}

extension ArrayElement {
    var isNull: Bool { false }
}

extension Optional: ArrayElement where Wrapped: ArrayElement {
    var isNull: Bool { self == nil }
    var byteCount: Int { self?.byteCount ?? 0 }
    func appendElement(to buffer: inout [UInt8]) -> Bool { self?.appendElement(to: &buffer) ?? true }
}

extension Bool: ArrayElement {
    fileprivate var byteCount: Int { 1 }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.append(self ? 1 : 0)
        return true
    }
}

extension Int32: ArrayElement {
    fileprivate var byteCount: Int { 4 }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.appendInteger(self)
        return true
    }
}

extension Int64: ArrayElement {
    fileprivate var byteCount: Int { 8 }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.appendInteger(self)
        return true
    }
}

extension Double: ArrayElement {
    fileprivate var byteCount: Int { 8 }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.appendInteger(bitPattern)
        return true
    }
}

extension String: ArrayElement {
    fileprivate var byteCount: Int { utf8.count }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.append(contentsOf: utf8)
        return true
    }
}

extension [UInt8]: ArrayElement {
    fileprivate var byteCount: Int { count }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.append(contentsOf: self)
        return true
    }
}

extension PostgresUUID: ArrayElement {
    fileprivate var byteCount: Int { 16 }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.appendInteger(high)
        buffer.appendInteger(low)
        return true
    }
}

private struct TimestampElement: ArrayElement {
    let milliseconds: Int64

    init(_ milliseconds: Int64) { self.milliseconds = milliseconds }

    var byteCount: Int { 8 }

    func appendElement(to buffer: inout [UInt8]) -> Bool {
        guard let microseconds = PostgresTimestamp.microseconds(fromMilliseconds: milliseconds) else { return false }
        buffer.appendInteger(microseconds)
        return true
    }
}

/// `jsonb_send`: a version byte, then the text.
private struct JSONBElement: ArrayElement {
    let text: String

    init(_ text: String) { self.text = text }

    var byteCount: Int { 1 + text.utf8.count }

    func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.append(1)
        buffer.append(contentsOf: text.utf8)
        return true
    }
}

extension [UInt8] {
    fileprivate mutating func appendInteger<T: FixedWidthInteger>(_ value: T) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }
}
