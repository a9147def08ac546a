import Observability

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
            let url = SettingURL(text), url.scheme == "https" || allowsHTTP && url.scheme == "http", !url.hasUser, !url.hasFragment,
            Self.isName(url.host.lowercased())
        else { return nil }
        host = url.host.lowercased()
        port = url.port ?? (url.scheme == "https" ? 443 : 80)
        let path = url.percentEncodedPath.isEmpty ? "/" : url.percentEncodedPath
        let query = url.percentEncodedQuery.map { "?" + $0 } ?? ""
        self.text = "\(url.scheme)://\(host)" + (url.port.map { ":\($0)" } ?? "") + path + query
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
