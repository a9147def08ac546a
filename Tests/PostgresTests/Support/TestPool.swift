import Postgres
import TestDatabase
import Testing

/// A pool on `uri`, closed when `body` is over.
@discardableResult
func withPool<R: Sendable>(
    _ uri: String, _ change: (inout PostgresConfiguration) -> Void = { _ in }, _ body: (PostgresPool) async throws -> R
) async throws -> R {
    var configuration = try TestServer.configuration(uri: uri)
    change(&configuration)
    let pool = PostgresPool(configuration)
    let result: R
    do {
        result = try await body(pool)
    } catch {
        await pool.close()
        throw error
    }
    await pool.close()
    return result
}

extension PostgresSession {
    /// The server's process that serves this session.
    func processID() throws(PostgresError) -> Int32 { try execute("SELECT pg_backend_pid() AS pid").only()["pid"] }
}

/// The error that `body` must throw.
func postgresError<R>(
    sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> R
) async throws -> PostgresError {
    try #require(
        await #expect(throws: PostgresError.self, sourceLocation: sourceLocation) { _ = try await body() }, sourceLocation: sourceLocation)
}

/// A libpq URI, split so that a test can replace the server.
struct ServerURI {
    let port: UInt16
    private let prefix: Substring
    private let suffix: Substring

    /// - Parameter uri: `postgresql://user[:password]@host[:port]/…` of a server on this machine.
    init(_ uri: String) throws {
        let scheme = try #require(uri.firstRange(of: "://"))
        let end = try #require(uri[scheme.upperBound...].firstIndex(of: "/"))
        let authority = uri[scheme.upperBound..<end]
        let hostStart = authority.lastIndex(of: "@").map { authority.index(after: $0) } ?? authority.startIndex
        let place = authority[hostStart...]
        port = try place.lastIndex(of: ":").map { try #require(UInt16(place[place.index(after: $0)...])) } ?? 5432
        prefix = uri[..<hostStart]
        suffix = uri[end...]
    }

    func with(port: UInt16) -> String { with(servers: "127.0.0.1:\(port)") }
    func with(servers: String) -> String { "\(prefix)\(servers)\(suffix)" }
}
