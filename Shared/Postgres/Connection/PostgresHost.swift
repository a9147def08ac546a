/// One of the servers that a connection string names.
struct PostgresHost: Sendable, CustomStringConvertible {
    /// A name, an address or a socket directory; nil for libpq's default. TLS checks the certificate against it.
    let host: String?
    /// An address that spares the name resolution (`hostaddr`).
    let address: String?
    let port: String?

    var description: String { "\(host ?? address ?? "the default host"):\(port ?? "5432")" }

    /// Pairs the comma-separated lists up as libpq does (manual 34.1.1.3): one port may serve all hosts.
    static func list(host: String?, hostaddr: String?, port: String?) throws(PostgresError) -> [PostgresHost] {
        func split(_ text: String?) -> [String?] {
            (text ?? "").split(separator: ",", omittingEmptySubsequences: false).map { $0.isEmpty ? nil : String($0) }
        }
        // Not quoted: in a mistyped URI a part of the password may be in the port's place.
        guard split(port).allSatisfy({ $0.map { UInt16($0) ?? 0 > 0 } ?? true }) else {
            throw PostgresError(.configuration, operation: "configure", message: "a port is not a number from 1 to 65535")
        }
        let (names, addresses, ports) = (split(host), split(hostaddr), split(port))
        let count = max(host == nil ? 0 : names.count, hostaddr == nil ? 0 : addresses.count, 1)
        guard host == nil || names.count == count, hostaddr == nil || addresses.count == count, [1, count].contains(ports.count) else {
            throw PostgresError(.configuration, operation: "configure", message: "the lists of hosts, addresses and ports differ in length")
        }
        return (0..<count).map { index in
            PostgresHost(
                host: host == nil ? nil : names[index], address: hostaddr == nil ? nil : addresses[index],
                port: ports.count == 1 ? ports[0] : ports[index])
        }
    }

    /// A host that has to be looked up before it can be connected to.
    var nameToResolve: String? {
        guard address == nil, let host, !host.hasPrefix("/"), !host.hasPrefix("@") else { return nil }
        return host
    }
}
