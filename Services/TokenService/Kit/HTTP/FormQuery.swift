import PushModel

/// A query as `application/x-www-form-urlencoded` (WHATWG URL, section 5.1), so that `+` is a blank. Read strictly: text that is not UTF-8
/// is no value, because replacement characters could spell the name of another user.
package struct FormQuery {
    package struct Parameter: Equatable {
        /// Nil where it cannot be decoded.
        package let name: String?
        /// Nil where it cannot be decoded.
        package let value: String?
    }

    package let parameters: [Parameter]

    /// - Parameter text: The query as it came, without the question mark.
    package init(_ text: String?) {
        parameters = (text ?? "").utf8.split(separator: UInt8(ascii: "&")).map { part in
            let end = part.firstIndex(of: UInt8(ascii: "=")) ?? part.endIndex
            return Parameter(name: Self.decoded(part[..<end]), value: Self.decoded(part[end...].dropFirst()))
        }
    }

    private static func decoded(_ text: Substring.UTF8View) -> String? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var rest = text.makeIterator()
        while let byte = rest.next() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard let high = rest.next().flatMap(hexValue), let low = rest.next().flatMap(hexValue) else { return nil }
                bytes.append(high << 4 | low)
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
