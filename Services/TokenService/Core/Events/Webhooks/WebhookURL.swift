import FoundationEssentials

/// A webhook's URL, taken apart and put together again, so that the service connects to exactly what it checked: a host name of letters,
/// digits, hyphens and full stops, no user, no fragment.
package struct WebhookURL: Hashable, Sendable {
    package static let maximumBytes = 2048
    package static let rule = "https, a host name, no user and no fragment, at most \(maximumBytes) bytes"

    package let text: String
    package let host: String
    package let port: Int

    /// - Parameter allowsHTTP: For development.
    package init?(_ text: String, allowsHTTP: Bool) {
        guard text.utf8.count <= Self.maximumBytes, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }),
            let parts = URLComponents(string: text), let scheme = parts.scheme?.lowercased(), let host = parts.host?.lowercased(),
            scheme == "https" || allowsHTTP && scheme == "http", parts.user == nil, parts.password == nil, parts.fragment == nil,
            Self.isName(host), parts.port.map({ (1...65_535).contains($0) }) ?? true
        else { return nil }
        self.host = host
        port = parts.port ?? (scheme == "https" ? 443 : 80)
        let path = parts.percentEncodedPath.isEmpty ? "/" : parts.percentEncodedPath
        let query = parts.percentEncodedQuery.map { "?" + $0 } ?? ""
        self.text = "\(scheme)://\(host)" + (parts.port.map { ":\($0)" } ?? "") + path + query
    }

    private static func isName(_ host: String) -> Bool {
        (1...253).contains(host.utf8.count)
            && host.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."):
                    true
                default: false
                }
            }
    }
}
