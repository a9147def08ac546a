import FoundationEssentials

/// A URL taken apart (RFC 3986), with its host as it was written and a port that is one. For settings, options and requests.
///
/// `URLComponents` alone decodes an internationalized name (`xn--…`), which DNS and TLS want as it is, and has no port if the digits are
/// too many for an integer. Describes itself without user, password, path and query.
package struct SettingURL: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// What is wrong with a text, to follow "but". Shows no part that may hold a password.
    package struct Fault: Error, Equatable, Sendable, CustomStringConvertible {
        package let description: String
    }

    /// The whole text, with any secret in it.
    package let text: String
    /// The scheme in lower case.
    package let scheme: String
    /// The host in ASCII, without the brackets of an IPv6 address.
    package let host: String
    package let port: Int?
    /// A user, a password, or both stand before the host.
    package let hasUser: Bool
    package let hasFragment: Bool
    package let percentEncodedPath: String
    package let percentEncodedQuery: String?

    /// Nil unless ``parse(_:)`` takes the text.
    package init?(_ text: String) {
        guard let url = try? SettingURL.parse(text) else { return nil }
        self = url
    }

    private init(_ text: String, scheme: String, host: String, port: Int?, parts: URLComponents) {
        self.text = text
        self.scheme = scheme.lowercased()
        self.host = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        self.port = port
        hasUser = parts.user != nil || parts.password != nil
        hasFragment = parts.fragment != nil
        percentEncodedPath = parts.percentEncodedPath
        percentEncodedQuery = parts.percentEncodedQuery
    }

    /// Takes a text of printable ASCII with a scheme, a host name or an address, and a port from 1 to 65535 if any.
    package static func parse(_ text: String) throws(Fault) -> SettingURL {
        guard text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw Fault(description: "has characters that are not printable ASCII: write an international host name as xn--…")
        }
        guard let parts = URLComponents(string: text), let scheme = parts.scheme, let host = parts.encodedHost, !host.isEmpty else {
            throw Fault(description: "is no URL with a scheme and a host")
        }
        guard host.hasPrefix("[") || !host.contains("%") else { throw Fault(description: "has a host name with a %") }
        var port: Int?
        if let range = parts.rangeOfPort {
            port = Int(text[range])
            guard let port, (1...65_535).contains(port) else { throw Fault(description: "has a port that is not from 1 to 65535") }
        }
        return SettingURL(text, scheme: scheme, host: host, port: port, parts: parts)
    }

    package var description: String { "\(scheme)://\(host.contains(":") ? "[\(host)]" : host)" + (port.map { ":\($0)" } ?? "") }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["url": description]) }
}
