internal import CPostgres
internal import Synchronization

/// Opens connections: tries each host, and each address of a host, in turn, each within its share of the time.
///
/// libpq could go through the list itself, but not past a host that accepts and never answers: the non-blocking calls ignore
/// `connect_timeout`, and no call makes `PQconnectPoll` go on to the next.
final class PostgresConnector: Sendable {
    let configuration: PostgresConfiguration
    /// The host that accepted the last connection; tried first. Else each new connection would wait for a host whose machine is gone.
    private let lastHost = Atomic<Int>(0)

    init(configuration: PostgresConfiguration) { self.configuration = configuration }

    /// - Throws: the reason for every host.
    func connect(deadline: Deadline?) throws(PostgresError) -> PostgresLink {
        let password = try configuration.password()
        let (hosts, first) = (configuration.hosts, lastHost.load(ordering: .relaxed))
        var reasons: [String] = []
        for tried in hosts.indices {
            let index = (first + tried) % hosts.count
            // The remaining hosts share the remaining time.
            let share = deadline.map { $0.remaining / (hosts.count - tried) } ?? configuration.connectTimeout
            do throws(PostgresError) {
                let link = try connect(
                    to: hosts[index], password: password, deadline: .after(min(share, configuration.connectTimeout)))
                lastHost.store(index, ordering: .relaxed)
                return link
            } catch {
                reasons.append(error.message)
            }
        }
        throw PostgresError(.connectionFailed, operation: "connect", message: reasons.joined(separator: "; "))
    }

    private func connect(to host: PostgresHost, password: String?, deadline: Deadline) throws(PostgresError) -> PostgresLink {
        let addresses: [String?]
        if let name = host.nameToResolve {
            addresses = try NameResolution.addresses(of: name, deadline: deadline)
        } else {
            addresses = [host.address]
        }
        var reasons: [String] = []
        for (index, address) in addresses.enumerated() {
            // The remaining addresses share the remaining time.
            let share = Deadline.after(deadline.remaining / (addresses.count - index))
            do throws(PostgresError) {
                return try connect(to: host, address: address, password: password, deadline: share)
            } catch {
                reasons.append(error.message)
            }
        }
        throw PostgresError(.connectionFailed, operation: "connect", message: reasons.joined(separator: "; "))
    }

    private func connect(
        to host: PostgresHost, address: String?, password: String?, deadline: Deadline
    ) throws(PostgresError) -> PostgresLink {
        var parameters = sessionParameters()
        parameters["host"] = host.host
        parameters["hostaddr"] = address
        parameters["port"] = host.port
        parameters["password"] = password
        guard let handle = Self.start(parameters) else {
            throw PostgresError(.connectionFailed, operation: "connect", message: "out of memory")
        }
        let lifetime = configuration.maximumLifetime * Double.random(in: 0.9...1)
        let link = PostgresLink(taking: handle, lifetime: lifetime)
        do throws(PostgresError) {
            try link.finishConnecting(deadline: deadline)
        } catch {
            throw PostgresError(.connectionFailed, operation: "connect", message: "\(host): \(error.message)".hiding(password))
        }
        return link
    }

    /// Wraps `PQconnectStartParams`.
    private static func start(_ parameters: [String: String]) -> OpaquePointer? {
        var words: [UnsafeMutablePointer<CChar>?] = []
        defer { for word in words { word?.deallocate() } }
        for (key, value) in parameters { words += [key.duplicatedForC(), value.duplicatedForC()] }
        let keys = stride(from: 0, to: words.count, by: 2).map { UnsafePointer(words[$0]) } + [nil]
        let values = stride(from: 1, to: words.count, by: 2).map { UnsafePointer(words[$0]) } + [nil]
        return PQconnectStartParams(keys, values, 0)
    }

    /// The URI's settings win over these.
    private func sessionParameters() -> [String: String] {
        let settings = [
            "statement_timeout": configuration.statementTimeout, "lock_timeout": configuration.lockTimeout,
            "idle_in_transaction_session_timeout": configuration.idleInTransactionTimeout,
        ]
        let timeouts = settings.map { "-c \($0)=\($1.milliseconds(rounding: .up))" }.sorted()
        var parameters = [
            "application_name": configuration.applicationName,
            // Detects a dead peer in about 20 s even if no operation waits for an answer.
            "keepalives_idle": "10", "keepalives_interval": "3", "keepalives_count": "3", "tcp_user_timeout": "10000",
            // Without this libpq asks for Kerberos tickets first.
            "gssencmode": "disable",
        ]
        parameters.merge(configuration.options) { _, theirs in theirs }
        parameters["client_encoding"] = "UTF8"
        let others = configuration.sessionSettings.map { "-c \($0)=\($1)" }.sorted()
        // No blank at the end: PgBouncer 1.24 refuses it.
        let own = configuration.options["options"].map { [$0] } ?? []
        parameters["options"] = (timeouts + others + ["-c TimeZone=UTC"] + own).joined(separator: " ")
        return parameters
    }
}

extension String {
    fileprivate func duplicatedForC() -> UnsafeMutablePointer<CChar> {
        let bytes = utf8CString
        let copy = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count)
        for (index, byte) in bytes.enumerated() { copy[index] = byte }
        return copy
    }

    /// libpq does not put the password into its messages; this makes sure of it.
    fileprivate func hiding(_ secret: String?) -> String {
        guard let secret, !secret.isEmpty else { return self }
        return split(separator: secret, omittingEmptySubsequences: false).joined(separator: "***")
    }
}

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
