import FoundationEssentials

/// The address of a service over HTTP, to which paths are added.
enum ServiceAddress {
    /// - Parameter name: The option or setting that the address comes from.
    /// - Returns: The address without slashes at its end.
    /// - Throws: ``CommandFailure``
    static func parse(_ text: String, from name: String) throws -> String {
        let expected = "\(name) must be an address such as http://127.0.0.1:8080 or https://push.example.com"
        guard let parts = URLComponents(string: text), parts.user == nil, parts.password == nil else {
            // A text that is no address may hold a password.
            throw CommandFailure("\(expected), without a user and a password")
        }
        guard ["http", "https"].contains(parts.scheme?.lowercased()), parts.host.map({ !$0.isEmpty }) == true else {
            let meant = parts.scheme.map { $0.lowercased() } == "http" || text.contains("://") ? "" : ": write http://\(text)"
            throw CommandFailure("\(expected), but is \"\(text)\"\(meant)")
        }
        guard parts.query == nil, parts.fragment == nil else { throw CommandFailure("\(expected), without a query, but is \"\(text)\"") }
        return String(text.reversed().drop { $0 == "/" }.reversed())
    }
}
