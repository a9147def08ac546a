internal import CPostgres
internal import FoundationEssentials

/// The database's address and the time limits of operations. Shows no password when printed.
package struct PostgresConfiguration: Sendable {
    /// How many connections a pool opens at most.
    package var poolSize = 8
    /// How long a caller waits for a free connection before `.poolExhausted`.
    package var checkOutTimeout: Duration = .seconds(2)
    /// The limit for each host, name resolution and TLS included.
    package var connectTimeout: Duration = .seconds(3)
    /// Enforced by the server (57014); zero turns it off there.
    package var statementTimeout: Duration = .seconds(2)
    /// Enforced by the server (55P03); zero turns it off there.
    package var lockTimeout: Duration = .milliseconds(500)
    /// Enforced by the server (25P03, the connection is closed); zero turns it off there.
    package var idleInTransactionTimeout: Duration = .seconds(5)
    /// How much longer than `statementTimeout` an answer may take before the connection is given up: the network's share.
    package var answerGrace: Duration = .seconds(1)
    /// A connection older than this, less up to a tenth at random, is replaced when it is next used.
    package var maximumLifetime: Duration = .seconds(30 * 60)
    /// How long a prepared statement's plan is used at most (wraps `DISCARD PLANS`); nil for as long as the server keeps it. The server
    /// makes a new one only after ANALYZE: until then a plan from a nearly empty table may read all of a large one. A connection's first
    /// plans are used for a second, the next for two, and so on.
    package var planLifetime: Duration?
    /// The name in `pg_stat_activity`, unless the URI names one.
    package var applicationName = "push"

    /// Settings of every session, by name, such as `work_mem`; the URI's `options` win.
    package var sessionSettings: [String: String] = [:]

    let options: [String: String]
    let hosts: [PostgresHost]
    private let passwordFile: String?

    /// - Parameters:
    ///   - uri: A libpq connection URI or keyword string (libpq manual 34.1.1), several hosts and TLS options included. Its
    ///     `connect_timeout`, `application_name`, `options` and keepalives win over the defaults here.
    ///   - passwordFile: A file holding the password, read anew for every connection, so that it can be rotated.
    package init(uri: String, passwordFile: String? = nil) throws(PostgresError) {
        var options = try ConnectionString.parse(uri)
        hosts = try PostgresHost.list(host: options["host"], hostaddr: options["hostaddr"], port: options["port"])
        if let seconds = options["connect_timeout"].flatMap(Int.init), seconds > 0 { connectTimeout = .seconds(seconds) }
        for key in ["host", "hostaddr", "port", "connect_timeout"] { options[key] = nil }
        options["target_session_attrs"] = try Self.sessionAttributes(options["target_session_attrs"])
        self.options = options
        self.passwordFile = passwordFile
        _ = try password()
    }

    /// One host may lead to a standby too: a name with several addresses, a proxy, or the former primary after a failover. A standby
    /// refuses writes, and its answers may be stale.
    private static func sessionAttributes(_ stated: String?) throws(PostgresError) -> String {
        guard let stated else { return "read-write" }
        guard ["read-write", "primary"].contains(stated) else {
            throw PostgresError(
                .configuration, operation: "configure",
                message: "target_session_attrs must be read-write or primary, because every connection writes")
        }
        return stated
    }

    /// The password of the file, if there is one; else of the URI.
    func password() throws(PostgresError) -> String? {
        guard let passwordFile else { return options["password"] }
        guard let bytes = FileManager.default.contents(atPath: passwordFile) else {
            throw PostgresError(.configuration, operation: "configure", message: "the password file \(passwordFile) cannot be read")
        }
        var text = Substring(String(decoding: bytes, as: UTF8.self))
        while let last = text.last, last.isNewline { text.removeLast() }
        guard !text.isEmpty else {
            throw PostgresError(.configuration, operation: "configure", message: "the password file \(passwordFile) is empty")
        }
        return String(text)
    }

    /// Bounds one operation for which the caller gave no deadline.
    var operationTimeout: Duration { (statementTimeout == .zero ? .seconds(60) : statementTimeout) + answerGrace }

    /// Bounds all operations of one caller of a named queue (``PostgresPool/queue``) together, from when it has a connection: else a caller
    /// with a thousand slow statements would have it for half an hour.
    var queueTimeout: Duration { operationTimeout * 4 }
}

extension PostgresConfiguration: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String {
        let places = hosts.map(\.description).joined(separator: ",")
        return "postgresql://\(places)/\(options["dbname"] ?? "") as \(options["user"] ?? "the default user")"
    }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["server": description]) }
}

/// Reads a connection string as libpq does.
enum ConnectionString {
    /// The options that the string sets (wraps `PQconninfoParse`; defaults and environment come in when connecting).
    static func parse(_ text: String) throws(PostgresError) -> [String: String] {
        var complaint: UnsafeMutablePointer<CChar>?
        guard let first = PQconninfoParse(text, &complaint) else {
            defer { PQfreemem(complaint) }
            // libpq quotes the string, password included, behind its first quotation mark.
            let words = complaint.map { String(cString: $0) } ?? "out of memory"
            let safe = words.prefix { $0 != "\"" }
            throw PostgresError(
                .configuration, operation: "configure", message: "not a libpq connection string (\(safe.trimmedForDisplay()))")
        }
        defer { PQconninfoFree(first) }
        var options: [String: String] = [:]
        var option = first
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { options[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        return options
    }
}

extension Substring {
    fileprivate func trimmedForDisplay() -> String {
        var text = self
        while let last = text.last, last.isWhitespace || last == ":" { text.removeLast() }
        return String(text)
    }
}
