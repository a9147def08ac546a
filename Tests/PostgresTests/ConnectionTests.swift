import Foundation
import Postgres
import TestDatabase
import TestSupport
import Testing

@Suite("A connection string is read as libpq reads it, and shows no secret", .timeLimit(.minutes(5)))
struct ConnectionTests {
    @Test func aDeadHostIsPassedOver() async throws {
        let server = try ServerURI(TestServer.uri())
        let hosts = "127.0.0.1:\(FreePorts.closed),127.0.0.1:\(server.port)"
        try await withPool(server.with(servers: hosts)) { pool in try await pool.session { session in try session.execute("SELECT 1") } }
    }

    @Test func aHostThatNeverAnswersIsPassedOver() async throws {
        let server = try ServerURI(TestServer.uri())
        let proxy = try FaultProxy(to: server.port, .silence)
        defer { proxy.stop() }
        let hosts = "127.0.0.1:\(proxy.port),127.0.0.1:\(server.port)"
        try await withPool(server.with(servers: hosts), { $0.connectTimeout = .seconds(2) }) { pool in
            for _ in 0..<3 {
                try await pool.session { session in
                    try session.execute("SELECT 1")
                    session.discardConnection()
                }
            }
        }
        // From then on the host that answers is tried first.
        #expect(proxy.connections == 1)
    }

    @Test func aHostThatNeverAnswersLeavesTheOthersTime() async throws {
        let server = try ServerURI(TestServer.uri())
        let proxy = try FaultProxy(to: server.port, .silence)
        defer { proxy.stop() }
        try await withPool(server.with(servers: "127.0.0.1:\(proxy.port),127.0.0.1:\(server.port)")) { pool in
            // Shorter than the connect timeout.
            try await pool.session(deadline: .seconds(4)) { session in try session.execute("SELECT 1") }
        }
        #expect(proxy.connections == 1)
    }

    @Test(.database) func aServerThatTakesNoWritesIsPassedOver() async throws {
        let database = try #require(TestDatabase.current)
        try await database.pool.session { session in
            let name: String = try session.execute("SELECT current_database()").only()["current_database"]
            try session.simple("ALTER DATABASE \(name) SET default_transaction_read_only = on")
        }
        let server = try ServerURI(database.uri)
        // A single host too: its name may lead to a standby.
        for hosts in ["127.0.0.1:\(server.port)", "127.0.0.1:\(server.port),localhost:\(server.port)"] {
            try await withPool(server.with(servers: hosts)) { pool in
                let error = try await postgresError { try await pool.session { session in try session.execute("SELECT 1") } }
                #expect(error.code == .connectionFailed)
                #expect(error.message.contains("session is read-only"))
                for host in hosts.split(separator: ",") { #expect(error.message.contains("\(host): ")) }
            }
        }
    }

    @Test func aStandbyCannotBeAskedFor() throws {
        for wanted in ["any", "prefer-standby", "standby", "read-only"] {
            let uri = "postgresql://h/d?target_session_attrs=\(wanted)"
            let error = #expect(throws: PostgresError.self) { try PostgresConfiguration(uri: uri) }
            #expect(error?.code == .configuration)
            #expect(error?.message.contains("target_session_attrs must be read-write or primary") == true)
        }
        _ = try PostgresConfiguration(uri: "postgresql://h/d?target_session_attrs=primary")
    }

    @Test func aNameIsResolved() async throws {
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

    @Test(arguments: [
        "postgresql://user:hunter2@host:port:port/db", "postgresql://user:hunter2@[::1/db", "user=u password=hunter2 host",
        "postgresql://user:hunter2@h/db?hunter2",
        "host=a,b port=1,2,3 password=hunter2", "postgresql://user:hunter2/@host/db", "postgresql://user:hunter2%zz@h/db",
    ])
    func aBrokenStringIsRefusedWithoutShowingIt(_ uri: String) {
        let error = #expect(throws: PostgresError.self) { try PostgresConfiguration(uri: uri) }
        #expect(error?.code == .configuration)
        #expect(error.map { "\($0)".contains("hunter2") } == false)
    }

    @Test func whatTheStringSaysWinsOverTheDefaults() async throws {
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

    @Test func aConfigurationShowsNoPassword() throws {
        let configuration = try PostgresConfiguration(uri: "postgresql://user:hunter2@host/db")
        var dumped = ""
        dump(configuration, to: &dumped)
        for text in ["\(configuration)", String(reflecting: configuration), dumped] { #expect(!text.contains("hunter2")) }
        #expect("\(configuration)".contains("host:5432/db as user"))
    }

    @Test func aFailedConnectShowsNoPassword() async throws {
        try await withPool("postgresql://user:hunter2@127.0.0.1:\(FreePorts.closed)/hunter2") { pool in
            let error = try await postgresError { try await pool.session { session in try session.execute("SELECT 1") } }
            #expect(error.message.contains("Connection refused"))
            #expect(!"\(error)".contains("hunter2"))
        }
    }

    @Test func thePasswordFileIsReadAnewForEveryConnection() async throws {
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

    @Test func whileConnectingFailsOnlyOneTriesAndTheOthersAreToldAtOnce() async throws {
        let server = try ServerURI(TestServer.uri())
        let proxy = try FaultProxy(to: server.port, .silence)
        defer { proxy.stop() }
        try await withPool(server.with(port: proxy.port), { $0.connectTimeout = .milliseconds(50) }) { pool in
            for _ in 0..<100 {
                let error = try await postgresError { try await pool.session { session in try session.execute("SELECT 1") } }
                #expect(error.code == .connectionFailed)
            }
        }
        // One each 25 ms at most, however busy the machine is.
        #expect(proxy.connections < 50)
    }
}
