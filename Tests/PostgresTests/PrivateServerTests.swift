import Foundation
import Glibc
import Postgres
import TestDatabase
import Testing

@Suite("With a server of its own", .timeLimit(.minutes(5)))
struct PrivateServerTests {
    @Test("The pool verifies the server's authority and name") func verifiesTLS() async throws {
        try await PrivateServer.with { server in
            let (right, wrong) = (server.directory.appending(path: "ca.pem").path, server.directory.appending(path: "other-ca.pem").path)

            let isEncrypted: Bool = try await withPool(server.uri("sslmode=verify-full&sslrootcert=\(right)")) { pool in
                try await pool.transaction { session in
                    try session.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").only()["ssl"]
                }
            }
            #expect(isEncrypted)

            let untrusted = try await refusal(server.uri("sslmode=verify-full&sslrootcert=\(wrong)"))
            #expect(untrusted.message.contains("certificate verify failed"))

            // The certificate is for localhost. Verifying only the authority would let this one through.
            let misnamed = try await refusal(server.uri(host: "127.0.0.1", "sslmode=verify-full&sslrootcert=\(right)"))
            #expect(misnamed.message.contains("does not match host name"))
            try await withPool(server.uri(host: "127.0.0.1", "sslmode=verify-ca&sslrootcert=\(right)")) { pool in
                try await pool.session { session in try session.execute("SELECT 1") }
            }
        }
    }

    @Test("A crash of the server is a lost connection, and the pool recovers") func serverCrash() async throws {
        try await PrivateServer.with { server in
            try await withPool(server.uri("sslmode=disable")) { pool in
                // kill -9 of one backend ends every session.
                let victim = try await pool.session { session in try session.processID() }
                let (started, killed) = (Signal(), Signal())
                async let witness = postgresError {
                    try await pool.transaction { session in
                        try session.execute("SELECT 1")
                        started.send()
                        killed.block()
                        try session.execute("SELECT pg_sleep(30)")
                    }
                }
                await started.wait()
                // The witness holds the first connection; the second is the victim.
                let second = try await pool.session { session in
                    let pid = try session.processID()
                    kill(pid, SIGKILL)
                    let error = #expect(throws: PostgresError.self) { try session.execute("SELECT pg_sleep(30)") }
                    #expect(error?.code == .connectionLost(outcomeUnknown: true))
                    #expect(error?.sqlState == nil)
                    return pid
                }
                #expect(second != victim)
                killed.send()
                let error = try await witness
                #expect(error.code == .connectionLost(outcomeUnknown: false))
                // Connecting fails while the server recovers, and then succeeds by itself.
                while await !pool.isHealthy() {}
                try await pool.transaction { session in try session.execute("SELECT 1") }
            }
        }
    }

    @Test("The pool follows the primary") func followsPrimary() async throws {
        try await PrivateServer.with { primary in
            try await primary.withStandby { standby in
                let refused = try await refusal(standby.uri("sslmode=disable"))
                #expect(refused.message.contains("session is read-only"))

                let hosts = "localhost:\(standby.port),localhost:\(primary.port)"
                try await withPool("postgresql://postgres@\(hosts)/postgres?sslmode=disable") { pool in
                    try await pool.session { session in
                        try session.simple("CREATE TABLE item (id int4 PRIMARY KEY)")
                        try session.simple("ALTER SYSTEM SET synchronous_standby_names = '*'")
                        try session.simple("SELECT pg_reload_conf()")
                    }
                    // A commit waits for the standby only when the setting applies.
                    while try await pool.session({ session in
                        try session.execute("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'").isEmpty
                    }) {}
                    try await pool.transaction { session in try session.execute("INSERT INTO item VALUES (1)") }

                    await primary.crash()
                    let error = try await postgresError {
                        try await pool.transaction { session in try session.execute("INSERT INTO item VALUES (2)") }
                    }
                    #expect(error.isUnavailable)
                    try await standby.promote()
                    while await !pool.isHealthy() {}
                    let found: [Int32] = try await pool.transaction { session in
                        try session.execute("INSERT INTO item VALUES (3)")
                        return try session.execute("SELECT id FROM item ORDER BY id").column("id")
                    }
                    #expect(found == [1, 3])
                }
            }
        }
    }

    /// The server's timeouts do not end this wait, and no other session sees the row until it ends.
    @Test("A COMMIT that no standby confirms has an unknown outcome") func unconfirmedCommit() async throws {
        try await PrivateServer.with { server in
            let change: (inout PostgresConfiguration) -> Void = {
                // Time enough for the statements that are answered.
                $0.statementTimeout = .seconds(4)
                $0.answerGrace = .seconds(1)
            }
            try await withPool(server.uri("sslmode=disable"), change) { pool in
                try await pool.session { session in
                    try session.simple("CREATE TABLE item (id int4 PRIMARY KEY)")
                    try session.simple("ALTER SYSTEM SET synchronous_standby_names = 'absent'")
                    try session.simple("SELECT pg_reload_conf()")
                }
                let count = { try await pool.session { session in try session.count("SELECT count(*) FROM item") } }
                var id: Int32 = 0
                var failure: PostgresError?
                while failure == nil {
                    id += 1
                    do {
                        try await pool.transaction { [id] session in try session.execute("INSERT INTO item VALUES (\(id))") }
                    } catch let error as PostgresError { failure = error }
                }
                #expect(failure?.code == .deadlineExceeded(outcomeUnknown: true))
                #expect(try await count() == Int64(id) - 1)

                try await pool.session { session in
                    try session.simple("ALTER SYSTEM RESET synchronous_standby_names")
                    try session.simple("SELECT pg_reload_conf()")
                }
                while try await count() < Int64(id) {}
            }
        }
    }

    private func refusal(_ uri: String) async throws -> PostgresError {
        try await withPool(uri) { pool in
            let error = try await postgresError { try await pool.session { session in try session.execute("SELECT 1") } }
            #expect(error.code == .connectionFailed)
            return error
        }
    }
}
