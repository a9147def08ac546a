package import Postgres
import TestServers

/// The PostgreSQL server that the tests may create databases on.
package enum TestServer {
    /// The server's URI. The tests use its database only to create others.
    package static func uri() throws -> String {
        try TestServers.variable(
            "PUSH_TEST_POSTGRES", "a PostgreSQL server that may create databases, as a libpq URI like postgresql://user@host:5432/postgres")
    }

    /// The same URI with another database.
    package static func uri(database: String) throws -> String {
        let uri = try uri()
        guard let scheme = uri.firstRange(of: "://") else { throw TestServers.Missing(description: "PUSH_TEST_POSTGRES is no URI") }
        let place = uri[scheme.upperBound...]
        let authority = place.prefix { $0 != "/" && $0 != "?" }
        let parameters = place.drop { $0 != "?" }
        return "\(uri[..<scheme.upperBound])\(authority)/\(database)\(parameters)"
    }

    package static let connectTimeout = Duration.seconds(60)

    /// A configuration for tests, with long timeouts because the machine may be busy: whatever is one minute late is not coming.
    package static func configuration(uri: String) throws(PostgresError) -> PostgresConfiguration {
        var configuration = try PostgresConfiguration(uri: uri)
        configuration.applicationName = "push-tests"
        configuration.bePatient()
        return configuration
    }
}

extension PostgresConfiguration {
    /// Waits longer than production does, for tests of other things.
    package mutating func bePatient() {
        connectTimeout = TestServer.connectTimeout
        checkOutTimeout = .seconds(60)
        statementTimeout = .seconds(60)
        // Less than a statement's: who waits for a lock for too long gets the lock's error.
        lockTimeout = .seconds(40)
        // A test's transaction waits for what the test does meanwhile.
        idleInTransactionTimeout = .seconds(240)
    }
}
