import Foundation
import Glibc
import Postgres
import TestDatabase
import Testing

@Suite("With a server of its own", .timeLimit(.minutes(5)))
struct PrivateServerTests {
    @Test func tlsIsVerifiedInFull() async throws {
        try await PrivateServer.with { server in
            let (right, wrong) = (server.directory.appending(path: "ca.pem").path, server.directory.appending(path: "other-ca.pem").path)

            let isEncrypted = try await withPool(server.uri("sslmode=verify-full&sslrootcert=\(right)")) { pool in
                try await pool.transaction { session in
                    try session.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").only().bool(0)
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

    @Test func aCrashOfTheServerIsALostConnectionAndThePoolRecovers() async throws {
        try await PrivateServer.with { server in
            try await withPool(server.uri("sslmode=disable")) { pool in
                // kill -9 of one backend takes every session down.
                let victim = try await pool.session { session in try session.execute("SELECT pg_backend_pid()").only().int32(0) }
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
                    let pid = try session.execute("SELECT pg_backend_pid()").only().int32(0)
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
                // While it recovers, connecting fails; then it succeeds without anybody's help.
                while await !pool.isHealthy() {}
                try await pool.transaction { session in try session.execute("SELECT 1") }
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
