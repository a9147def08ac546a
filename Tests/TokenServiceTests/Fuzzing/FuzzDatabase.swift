@testable import Postgres

/// Values in PostgreSQL's binary format. What is read is written as it came, except where one value has two forms.
enum FuzzDatabase {
    static func run(_ bytes: [UInt8]) {
        guard let kind = bytes.first else { return }
        bytes.dropFirst().withUnsafeBytes { value in
            switch kind % 16 {
            case 0: _ = Bool(binary: value, type: .bool)
            case 1: if let read = Int32(binary: value, type: .int32) { expect(.int32(read), value) }
            case 2: _ = Int32(binary: value, type: .int16)
            case 3: if let read = Int64(binary: value, type: .int64) { expect(.int64(read), value) }
            case 4: _ = Int64(binary: value, type: .int32)
            case 5: if let read = Double(binary: value, type: .double) { expect(.double(read), value) }
            case 6: _ = Double(binary: value, type: .float)
            case 7: _ = String(binary: value, type: .text)
            case 8: _ = String(binary: value, type: .jsonb)
            case 9: if let read = [UInt8](binary: value, type: .bytes) { expect(.bytes(read), value) }
            case 10: if let read = PostgresUUID(binary: value, type: .uuid) { expect(.uuid(read), value) }
            case 11: timestamp(value)
            case 12: array(value) { (read: [Int64?]) in .optionalInt64Array(read) }
            case 13: array(value) { (read: [String?]) in .optionalTextArray(read) }
            case 14: array(value) { (read: [[UInt8]?]) in .optionalBytesArray(read) }
            default: array(value) { (read: [PostgresUUID?]) in .optionalUUIDArray(read) }
            }
        }
    }

    private static func expect(_ read: PostgresValue, _ value: UnsafeRawBufferPointer) {
        var written: [UInt8] = []
        precondition(read.appendBinary(to: &written) && written.elementsEqual(value), "\(read) is written differently than it came")
    }

    private static func timestamp(_ value: UnsafeRawBufferPointer) {
        guard let read = DecodedTimestamp(binary: value, type: .timestamp) else { return }
        var written: [UInt8] = []
        precondition(
            PostgresValue.timestamp(milliseconds: read.milliseconds).appendBinary(to: &written), "a moment that was read can be written")
        written.withUnsafeBytes { written in
            precondition(DecodedTimestamp(binary: written, type: .timestamp)?.milliseconds == read.milliseconds)
        }
    }

    private static func array<Element: BinaryDecodable & Equatable>(
        _ value: UnsafeRawBufferPointer, _ make: ([Element?]) -> PostgresValue
    ) {
        guard var reader = BinaryArrayReader(value), reader.elementType == Element.usualType, let read: [Element?] = reader.elements()
        else {
            return
        }
        var written: [UInt8] = []
        precondition(make(read).appendBinary(to: &written), "an array that was read can be written")
        written.withUnsafeBytes { written in
            guard var again = BinaryArrayReader(written), let elements: [Element?] = again.elements() else {
                preconditionFailure("an array that was written can be read")
            }
            precondition(elements == read)
        }
    }
}
