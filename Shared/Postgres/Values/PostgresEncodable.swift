/// A Swift type whose values may stand in a ``PostgresQuery``: numbers, text, bytes, UUIDs and their arrays; each of them optional.
package protocol PostgresEncodable {
    /// The type of a NULL in its place.
    static var postgresType: PostgresType { get }
    var postgresValue: PostgresValue { get }
}

extension Array: PostgresEncodable where Element: PostgresArrayElement {
    package static var postgresType: PostgresType { Element.arrayType }
    package var postgresValue: PostgresValue { Element.array(self) }
}

/// An enumeration is sent as its text.
extension PostgresEncodable where Self: RawRepresentable, RawValue == String {
    package static var postgresType: PostgresType { .text }
    package var postgresValue: PostgresValue { .text(rawValue) }
}
