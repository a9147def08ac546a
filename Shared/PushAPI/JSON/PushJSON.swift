import Foundation
import StrictJSON

extension PushAPI {
    /// A JSON value, kept as its text: the client sends it byte for byte.
    ///
    /// Swift's literals make one (`["aps": ["alert": "Hello"]]`, in the order of the literal), and so does any `Encodable` value.
    public struct JSON: Sendable, Hashable {
        public let bytes: [UInt8]

        init(unchecked bytes: [UInt8]) { self.bytes = bytes }

        /// Takes JSON that is ready.
        /// - Throws: ``PushAPIError/unreadable(_:)`` unless `bytes` are one JSON value.
        public init(bytes: [UInt8]) throws(PushAPIError) {
            do { _ = try JSONValue.parse(bytes, maximumBytes: bytes.count) } catch { throw .unreadable("not JSON: \(error)") }
            self.bytes = bytes
        }

        /// - Throws: What `JSONEncoder` throws.
        public init(encoding value: some Encodable) throws { bytes = Array(try JSONEncoder().encode(value)) }

        /// - Throws: What `JSONDecoder` throws.
        public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
            try JSONDecoder().decode(type, from: Data(bytes))
        }

        private init(_ write: (inout JSONWriter) -> Void) {
            var writer = JSONWriter()
            write(&writer)
            bytes = writer.bytes
        }
    }
}

extension PushAPI.JSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByNilLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self.init { $0.value(value) } }
    public init(integerLiteral value: Int64) { self.init { $0.value(value) } }
    public init(floatLiteral value: Double) { self.init { $0.value(value) } }
    public init(booleanLiteral value: Bool) { self.init { $0.value(value) } }
    public init(nilLiteral: ()) { self.init { $0.null() } }

    public init(arrayLiteral elements: PushAPI.JSON...) {
        self.init { $0.array { array in for element in elements { array.raw(element.bytes) } } }
    }

    public init(dictionaryLiteral elements: (String, PushAPI.JSON)...) {
        self.init { $0.object { object in for (name, value) in elements { object.field(name, raw: value.bytes) } } }
    }

    /// A text that is no literal.
    public init(_ text: String) { self.init { $0.value(text) } }
    public init(_ number: Int) { self.init { $0.value(number) } }
}
