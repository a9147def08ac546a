import APNsSimulator
import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1
import ServiceLifecycle
import StrictJSON
import Testing

/// A running simulator with its control API.
struct TestControl: Sendable {
    struct Answer: Sendable {
        let status: UInt
        let contentType: String?
        let text: String
        let json: JSONValue?
    }

    let test: TestSimulator
    let port: Int
    /// Begins the graceful shutdown.
    let stop: @Sendable () async -> Void

    @discardableResult
    func call(_ method: String, _ path: String, _ body: String? = nil, timeout: TimeAmount = .seconds(30)) async throws -> Answer {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
        request.method = .init(rawValue: method)
        if let body { request.body = .bytes(ByteBuffer(string: body)) }
        let response = try await HTTPClient.shared.execute(request, timeout: timeout)
        let bytes = Array(try await response.body.collect(upTo: 1 << 24).readableBytesView)
        let type = response.headers.first(name: "content-type")
        return Answer(
            status: response.status.code, contentType: type, text: String(decoding: bytes, as: UTF8.self),
            json: type?.contains("json") == true ? try JSONValue.parse(bytes, maximumBytes: 1 << 24) : nil)
    }
}

/// As `withSimulator`, through the service that the program runs.
func withControl(
    idleTimeout: Duration = .seconds(60), _ change: (inout APNsSimulatorConfiguration) throws -> Void = { _ in },
    _ body: @escaping @Sendable (TestControl) async throws -> Void
) async throws {
    try await withUnstartedSimulator(change) { test in
        let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
        let (started, starting) = AsyncStream.makeStream(of: SimulatorService.Ports.self)
        let service = SimulatorService(test.simulator, logger: logger, idleTimeout: idleTimeout) { starting.yield($0) }
        let group = ServiceGroup(configuration: ServiceGroupConfiguration(services: [service], logger: logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { starting.finish() }
                try await group.run()
            }
            for await ports in started {
                let outcome: Result<Void, any Error>
                do {
                    outcome = .success(
                        try await body(TestControl(test: test, port: ports.control) { await group.triggerGracefulShutdown() }))
                } catch {
                    outcome = .failure(error)
                }
                await group.triggerGracefulShutdown()
                try outcome.get()
            }
            try await tasks.waitForAll()
        }
    }
}
