import BenchmarkSupport
import Broker
import Foundation
import Glibc
import PushAPI
import PushModel
import RabbitMQ
import StrictJSON
import SystemIO

/// The running programs and servers, and how to freeze them.
final class PlatformUnderTest {
    let database: Database
    let service: ServiceProcess
    let address: SocketAddress
    let simulator: SocketAddress
    let journal: String
    let bare: BarePublisher
    let topology = Topology()
    private let dispatchers: [Int32]
    private let broker: RabbitMQConfiguration
    /// A key for each app.
    private let keys: [String: String]

    /// Makes the apps and their keys.
    init(_ options: NotificationBenchmark, folder: String) async throws {
        database = Database(url: options.postgres, folder: folder)
        service = ServiceProcess(id: options.pid)
        address = try LoadGenerator(host: "127.0.0.1", port: options.port, connections: 1).address
        simulator = try LoadGenerator(host: "127.0.0.1", port: options.controlPort, connections: 1).address
        journal = options.journal
        dispatchers = options.dispatcherPid
        broker = try RabbitMQConfiguration(uri: options.amqp, connectionName: "benchmark")
        bare = BarePublisher(program: options.barePublisher, amqp: options.amqp, folder: folder)
        let admin = try String(contentsOf: URL(filePath: options.adminKeyFile), encoding: .utf8).trimmingCharacters(
            in: .whitespacesAndNewlines)
        var keys: [String: String] = [:]
        for app in [Audience.bulkApp, Audience.nowApp] {
            keys[app] = try await PushAPI.makeApp(
                app, at: "http://127.0.0.1:\(options.port)", admin: admin, scopes: ["devices", "read", "send"])
        }
        self.keys = keys
    }

    func key(of app: String) -> String { keys[app] ?? "" }

    // MARK: Standing still

    func stopDispatchers() { for pid in dispatchers { kill(pid, SIGSTOP) } }
    func resumeDispatchers() { for pid in dispatchers { kill(pid, SIGCONT) } }
    func stopService() { kill(Int32(service.id), SIGSTOP) }
    func resumeService() { kill(Int32(service.id), SIGCONT) }

    func resumeEverything() {
        resumeService()
        resumeDispatchers()
    }

    /// Waits until the broker confirmed all jobs and the database holds that.
    func waitUntilPublished() throws {
        try wait("everything is published", seconds: 120) {
            try database.integer("SELECT count(*) FROM jobs WHERE published_at IS NULL") == 0 ? () : nil
        }
    }

    // MARK: The broker

    func withBroker<Result>(_ body: (RabbitMQConnection) throws -> Result) throws -> Result {
        let connection = try RabbitMQConnection.open(broker)
        defer { connection.close() }
        return try body(connection)
    }

    /// Declares the same topology again under another prefix, for the bare publisher.
    func declareBare() throws -> Topology {
        let topology = Topology(prefix: "bare")
        try withBroker { try topology.declare(on: $0) }
        return topology
    }

    /// Removes the remaining jobs and the notifications.
    func forget() throws {
        try forgetMessages()
        try database.psql("TRUNCATE notifications, notification_variants, jobs, receipts")
        try database.settle()
    }

    /// Removes the waiting jobs from the broker.
    func forgetMessages() throws {
        try withBroker { connection in
            for lane in [Lane.now, .soon, .bulk] { try connection.purge(topology.jobQueue(lane)) }
        }
    }

    // MARK: Waiting

    /// Asks until `answer` has one.
    func wait<Answer>(_ what: String, seconds: Double, pause: Double = 0.1, _ answer: () throws -> Answer?) throws -> Answer {
        let end = ContinuousClock.now + .seconds(seconds)
        while ContinuousClock.now < end {
            if let value = try answer() { return value }
            Thread.sleep(forTimeInterval: pause)
        }
        throw BenchmarkError("\(Int(seconds)) s have passed and it is not so that \(what)")
    }

    /// The number of pushes that the simulator received.
    func pushes() throws -> Int { try Self.pushes(at: simulator) }

    func play(scenario: String) throws {
        let answer = try HTTPConnection(to: simulator).call(HTTPRequest("PUT", "/v1/scenario", key: "", body: scenario))
        guard answer.status < 300 else { throw answer.refusal(of: "a scenario") }
    }

    func playNothing() {
        do { _ = try HTTPConnection(to: simulator).call(HTTPRequest("DELETE", "/v1/scenario", key: "")) } catch {
            progress("the scenario stays: \(error)")
        }
    }

    static func pushes(at simulator: SocketAddress) throws -> Int {
        let answer = try HTTPConnection(to: simulator).call(HTTPRequest("GET", "/v1/counters", key: ""))
        guard let count = try JSONValue.parse(answer.body, maximumBytes: 1 << 20)["requests"]?.integerValue else {
            throw answer.refusal(of: "its counters")
        }
        return Int(count)
    }
}
