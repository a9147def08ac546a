import Observability

/// The address of a service over HTTP, to which paths are added.
enum ServiceAddress {
    /// - Parameter name: The option or setting that the address comes from.
    /// - Returns: The address without slashes at its end.
    /// - Throws: ``CommandFailure``
    static func parse(_ text: String, from name: String) throws -> String {
        let expected = "\(name) must be an address such as http://127.0.0.1:8080 or https://push.example.com"
        let meant = text.contains("://") ? "" : ": write http://\(text)"
        let url: SettingURL
        do throws(SettingURL.Fault) { url = try SettingURL.parse(text) } catch {
            // A text that is no address may hold a password.
            guard !text.contains("@") else { throw CommandFailure("\(expected), without a user and a password") }
            throw CommandFailure("\(expected), but is \"\(text)\"\(meant.isEmpty ? ", which \(error)" : meant)")
        }
        guard !url.hasUser else { throw CommandFailure("\(expected), without a user and a password") }
        guard ["http", "https"].contains(url.scheme) else { throw CommandFailure("\(expected), but is \"\(text)\"\(meant)") }
        guard url.percentEncodedQuery == nil, !url.hasFragment else {
            throw CommandFailure("\(expected), without a query, but is \"\(text)\"")
        }
        return String(text.reversed().drop { $0 == "/" }.reversed())
    }
}
