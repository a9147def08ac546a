import Foundation
import Postgres
import TestDatabase
import TestSupport
import Testing

@Suite("The module reads a connection string like libpq and shows no secret", .timeLimit(.minutes(5)))
struct ConnectionTests {
    @Test("The pool passes over a dead host") func deadHost() async throws {
        let server = try ServerURI(TestServer.uri())
        let hosts = "127.0.0.1:\(FreePorts.closed),127.0.0.1:\(server.port)"
        try await withPool(server.with(servers: hosts)) { pool in try await pool.session { session in try session.execute("SELECT 1") } }
    }

    @Test("The pool passes over a host that never answers") func muteHost() async throws {
        let server = try ServerURI(TestServer.uri())
        let proxy = try FaultProxy(to: server.port, .silence)
        defer { proxy.stop() }
        let hosts = "127.0.0.1:\(proxy.port),127.0.0.1:\(server.port)"
        // The time that the host before takes, and that the real one has.
        try await withPool(server.with(servers: hosts), { $0.connectTimeout = .seconds(5) }) { pool in
            for _ in 0..<3 {
                try await pool.session { session in
                    try session.execute("SELECT 1")
                    session.discardConnection()
                }
            }
        }
        // After that the pool tries the host that answers first.
        #expect(proxy.connections == 1)
    }

    @Test("A host that never answers leaves time for the others") func leavesTime() async throws {
        let server = try ServerURI(TestServer.uri())
        let proxy = try FaultProxy(to: server.port, .silence)
        defer { proxy.stop() }
        try await withPool(server.with(servers: "127.0.0.1:\(proxy.port),127.0.0.1:\(server.port)")) { pool in
            // Shorter than the connect timeout. Half of it is for each host.
            try await pool.session(deadline: .seconds(10)) { session in try session.execute("SELECT 1") }
        }
        #expect(proxy.connections == 1)
    }

    @Test("The pool passes over a server that takes no writes", .database) func readOnlyServer() async throws {
        let database = try #require(TestDatabase.current)
        try await database.pool.session { session in
            let name: String = try session.execute("SELECT current_database()").only()["current_database"]
            try session.simple("ALTER DATABASE \(name) SET default_transaction_read_only = on")
        }
        let server = try ServerURI(database.uri)
        // Also with a single host, because its name may lead to a standby.
        for hosts in ["127.0.0.1:\(server.port)", "127.0.0.1:\(server.port),localhost:\(server.port)"] {
            try await withPool(server.with(servers: hosts)) { pool in
                let error = try await postgresError { try await pool.session { session in try session.execute("SELECT 1") } }
                #expect(error.code == .connectionFailed)
                #expect(error.message.contains("session is read-only"))
                for host in hosts.split(separator: ",") { #expect(error.message.contains("\(host): ")) }
            }
        }
    }

    @Test("A configuration refuses to ask for a standby") func refusesStandby() throws {
        for wanted in ["any", "prefer-standby", "standby", "read-only"] {
            let uri = "postgresql://h/d?target_session_attrs=\(wanted)"
            let error = #expect(throws: PostgresError.self) { try PostgresConfiguration(uri: uri) }
            #expect(error?.code == .configuration)
            #expect(error?.message.contains("target_session_attrs must be read-write or primary") == true)
        }
        _ = try PostgresConfiguration(uri: "postgresql://h/d?target_session_attrs=primary")
    }

    @Test("The pool resolves host names") func resolvesNames() async throws {
        let server = try ServerURI(TestServer.uri())
        try await withPool(server.with(servers: "localhost:\(server.port)")) { pool in
            try await pool.session { session in try session.execute("SELECT 1") }
        }
        try await withPool(server.with(servers: "no-such-host.invalid")) { pool in
            let error = try await postgresError { try await pool.session { session in try session.execute("SELECT 1") } }
            #expect(error.code == .connectionFailed)
            #expect(error.message.contains("no-such-host.invalid"))
        }
    }

    @Test(
        "A configuration refuses a broken string without showing it",
        arguments: [
            "postgresql://user:hunter2@host:port:port/db", "postgresql://user:hunter2@[::1/db", "user=u password=hunter2 host",
            "postgresql://user:hunter2@h/db?hunter2",
            "host=a,b port=1,2,3 password=hunter2", "postgresql://user:hunter2/@host/db", "postgresql://user:hunter2%zz@h/db",
        ])
    func brokenString(_ uri: String) {
        let error = #expect(throws: PostgresError.self) { try PostgresConfiguration(uri: uri) }
        #expect(error?.code == .configuration)
        #expect(error.map { "\($0)".contains("hunter2") } == false)
    }

    @Test("The string overrides the defaults") func overrides() async throws {
        let uri = try TestServer.uri() + "?connect_timeout=7&application_name=told&options=-c%20statement_timeout%3D1234"
        let configuration = try PostgresConfiguration(uri: uri)
        #expect(configuration.connectTimeout == .seconds(7))
        let pool = PostgresPool(configuration)
        let settings: [String] = try await pool.session { session in
            let row = try session.execute(
                "SELECT current_setting('application_name') AS name, current_setting('statement_timeout') AS timeout"
            ).only()
            return [try row["name"], try row["timeout"]]
        }
        await pool.close()
        #expect(settings == ["told", "1234ms"])
    }

    @Test("A configuration shows no password") func hiddenPassword() throws {
        let configuration = try PostgresConfiguration(uri: "postgresql://user:hunter2@host/db")
        var dumped = ""
        dump(configuration, to: &dumped)
        for text in ["\(configuration)", String(reflecting: configuration), dumped] { #expect(!text.contains("hunter2")) }
        #expect("\(configuration)".contains("host:5432/db as user"))
    }

    @Test("A failed connect shows no password") func failedConnect() async throws {
        try await withPool("postgresql://user:hunter2@127.0.0.1:\(FreePorts.closed)/hunter2") { pool in
            let error = try await postgresError { try await pool.session { session in try session.execute("SELECT 1") } }
            #expect(error.message.contains("Connection refused"))
            #expect(!"\(error)".contains("hunter2"))
        }
    }

    @Test("The pool reads the password file for every connection") func rereadsPassword() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "password-\(UUID().uuidString)")
        #expect(throws: PostgresError.self) { try PostgresConfiguration(uri: "postgresql://h/d", passwordFile: file.path) }
        try Data("\n".utf8).write(to: file)
        #expect(throws: PostgresError.self) { try PostgresConfiguration(uri: "postgresql://h/d", passwordFile: file.path) }
        try Data("secret\n".utf8).write(to: file)
        var configuration = try PostgresConfiguration(uri: TestServer.uri(), passwordFile: file.path)
        configuration.connectTimeout = TestServer.connectTimeout
        let pool = PostgresPool(configuration)
        try await pool.session { session in
            try session.execute("SELECT 1")
            session.discardConnection()
        }
        try FileManager.default.removeItem(at: file)
        let error = try await postgresError { try await pool.session { session in try session.execute("SELECT 1") } }
        #expect(error.code == .configuration)
        await pool.close()
    }

    @Test("While connecting fails, one caller tries and the others fail at once") func oneTries() async throws {
        let server = try ServerURI(TestServer.uri())
        let proxy = try FaultProxy(to: server.port, .silence)
        defer { proxy.stop() }
        try await withPool(server.with(port: proxy.port), { $0.connectTimeout = .milliseconds(50) }) { pool in
            for _ in 0..<100 {
                let error = try await postgresError { try await pool.session { session in try session.execute("SELECT 1") } }
                #expect(error.code == .connectionFailed)
            }
        }
        // At most one attempt each 25 ms, even on a busy machine.
        #expect(proxy.connections < 50)
    }
}
