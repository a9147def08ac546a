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
