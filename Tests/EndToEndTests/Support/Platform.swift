import Broker
import Foundation
import Postgres
import PushAPI
import PushModel
import StrictJSON
import TestBroker
import TestDatabase
import TestServers
import TestSupport
import Testing

/// The whole platform as processes. Every test has its own database, broker prefix, credentials and free ports.
final class Platform {
    let folder: String
    let databaseURI: String
    /// A pool on the same database, for facts that no API reports.
    let database: PostgresPool
    let brokerURI: String
    let brokerPrefix: String
    let adminKey = APIKeyText.generate().text
    let programs: String
    let simulatorURL: String
    let productionPort: Int
    let sandboxPort: Int
    /// Where the simulated APNs manages broadcast channels.
    let productionChannelsPort: Int
    let sandboxChannelsPort: Int
    private var running: [PlatformProcess] = []

    init(databaseURI: String, database: PostgresPool, brokerURI: String, brokerPrefix: String) throws {
        self.database = database
        self.databaseURI = databaseURI
        self.brokerURI = brokerURI
        self.brokerPrefix = brokerPrefix
        programs = try TestServers.programs()
        folder = NSTemporaryDirectory() + "/push-e2e-\(PushID.random())"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let ports = try FreePorts.choose(5)
        (productionPort, sandboxPort) = (ports[0], ports[1])
        (productionChannelsPort, sandboxChannelsPort) = (ports[3], ports[4])
        simulatorURL = "http://127.0.0.1:\(ports[2])"
        try Data(adminKey.utf8).write(to: URL(fileURLWithPath: "\(folder)/admin.key"))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: "\(folder)/admin.key")
        try makeCredentials()
    }

    /// Ends every process, and shows the programs' logs if the test failed.
    func stop(showLogs: Bool) async {
        await endAll()
        if showLogs {
            for process in running { print("--- the log of \(process.name) ---\n\(process.log.suffix(4000))") }
        }
        expectNoSecretsInLogs()
        try? FileManager.default.removeItem(atPath: folder)
    }

    /// Checks that no log holds a secret of the test.
    private func expectNoSecretsInLogs() {
        guard !running.allSatisfy({ $0.log.isEmpty || !$0.logPath.hasSuffix(".log") }) else { return }
        do {
            let check = try LogCheck.run(folder)
            #expect(check.status == 0, "\(check.words)")
        } catch {
            Issue.record("the logs could not be checked: \(error)")
        }
    }

    func endAll() async {
        for process in running.reversed() where process.isRunning { await process.killAndWait() }
    }

    func waitUntilReady(_ service: RunningService) async throws { try await waitUntilAnswers("\(service.url)/readyz", service.process) }

    /// Waits until the broker has one job of the lane `now`. A notification that is `sending` may wait in the outbox: the token service is
    /// ready before its connections to the broker are.
    func waitUntilQueued() async throws {
        let configuration = try TestBroker.configuration()
        _ = try await eventually("a job is in the broker") {
            try await TestBroker.messageCount(topology.jobQueue(.now), configuration) == 1 ? true : nil
        }
    }

    func hasLogged(_ level: String) -> Bool { running.contains { $0.log.contains("\"level\":\"\(level)\"") } }

    // MARK: Programs

    @discardableResult
    func startSimulator(_ settings: [String: String] = [:]) async throws -> PlatformProcess {
        let process = try start(
            "apns-simulator",
            [
                "PRODUCTION_PORT": "\(productionPort)", "SANDBOX_PORT": "\(sandboxPort)", "CONTROL_PORT": "\(port(of: simulatorURL))",
                "PRODUCTION_MANAGEMENT_PORT": "\(productionChannelsPort)", "SANDBOX_MANAGEMENT_PORT": "\(sandboxChannelsPort)",
                "TLS_CERTIFICATE_FILE": "\(folder)/credentials/simulator.crt", "TLS_KEY_FILE": "\(folder)/credentials/simulator.key",
                "KEYS_FILE": "\(folder)/credentials/simulator-keys.json",
            ].merging(settings) { _, given in given })
        try await waitUntilAnswers("\(simulatorURL)/healthz", process)
        return process
    }

    /// The settings of a token service that makes device credentials.
    func deviceCredentials() throws -> [String: String] {
        let keys = "\(folder)/device.keys"
        try Data(String(repeating: "7e", count: 32).utf8).write(to: URL(fileURLWithPath: keys))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: keys)
        return ["DEVICE_CREDENTIAL_KEYS_FILE": keys]
    }

    func startTokenService(_ settings: [String: String] = [:]) async throws -> RunningService {
        let service = try launchTokenService(settings)
        try await waitUntilAnswers("\(service.url)/readyz", service.process)
        return service
    }

    /// A new process on a port of the test's choice, where one was killed.
    func startTokenService(at port: Int, _ settings: [String: String] = [:]) async throws -> RunningService {
        let process = try launchTokenService(settings.merging(["HTTP_PORT": "\(port)"]) { _, given in given }).process
        let service = RunningService(process: process, url: "http://127.0.0.1:\(port)")
        try await waitUntilReady(service)
        return service
    }

    /// One that need not become ready.
    func launchTokenService(_ settings: [String: String] = [:]) throws -> RunningService {
        let url = "http://127.0.0.1:\(try FreePorts.choose(1)[0])"
        let process = try start(
            "token-service",
            [
                "HTTP_PORT": "\(port(of: url))", "POSTGRES_URL": databaseURI, "RABBITMQ_URL": brokerURI, "BROKER_PREFIX": brokerPrefix,
                // If the broker is there, its answer comes, even on a busy machine; so does the end of a process.
                "BOOTSTRAP_KEY_FILE": "\(folder)/admin.key", "FENCE_TIMEOUT_MS": "10000", "SHUTDOWN_DEADLINE_SECONDS": "120",
            ].merging(settings) { _, given in given })
        return RunningService(process: process, url: url)
    }

    @discardableResult
    func startDispatcher(_ name: String = "dispatcher", _ settings: [String: String] = [:]) async throws -> RunningService {
        let dispatcher = try launchDispatcher(name, settings)
        try await waitUntilAnswers("\(dispatcher.url)/readyz", dispatcher.process)
        return dispatcher
    }

    /// One that need not become ready.
    func launchDispatcher(_ name: String = "dispatcher", _ settings: [String: String] = [:]) throws -> RunningService {
        let url = "http://127.0.0.1:\(try FreePorts.choose(1)[0])"
        let process = try start(
            "dispatcher",
            [
                "OPERATIONS_PORT": "\(port(of: url))", "INSTANCE": name, "RABBITMQ_URL": brokerURI, "BROKER_PREFIX": brokerPrefix,
                "APNS_CREDENTIALS_FILE": "\(folder)/credentials/credentials.json", "APNS_CA_FILE": "\(folder)/credentials/ca.crt",
                "APNS_PRODUCTION_URL": "https://localhost:\(productionPort)", "APNS_SANDBOX_URL": "https://localhost:\(sandboxPort)",
                "APNS_PRODUCTION_CHANNELS_URL": "https://localhost:\(productionChannelsPort)",
                "APNS_SANDBOX_CHANNELS_URL": "https://localhost:\(sandboxChannelsPort)", "SHUTDOWN_DEADLINE_SECONDS": "120",
            ].merging(settings) { _, given in given })
        return RunningService(process: process, url: url)
    }

    /// Runs a program to its end. Its output is in the returned process's log.
    func run(
        _ program: String, _ arguments: [String], _ environment: [String: String] = [:]
    ) async throws -> (ending: PlatformProcess.Ending?, output: String) {
        let process = try PlatformProcess(
            program, program: "\(programs)/\(program)", arguments: arguments, environment: environment, logFolder: folder, logName: "out")
        running.append(process)
        let ending = await process.waitForEnd()
        return (ending, process.log)
    }

    /// Runs shell commands to their end, in the repository's folder.
    func shell(_ commands: String, _ environment: [String: String] = [:]) async throws -> (ending: PlatformProcess.Ending?, output: String)
    {
        let process = try PlatformProcess(
            "shell-\(running.count)", program: "/bin/bash", arguments: ["-c", "set -euo pipefail; cd '\(repositoryFolder)'\n\(commands)"],
            environment: environment, logFolder: folder, logName: "out")
        running.append(process)
        let ending = await process.waitForEnd()
        return (ending, process.log)
    }

    private func start(_ program: String, _ environment: [String: String]) throws -> PlatformProcess {
        let process = try PlatformProcess(
            "\(program)-\(running.count)", program: "\(programs)/\(program)", environment: environment, logFolder: folder)
        running.append(process)
        return process
    }

    var topology: Topology { Topology(prefix: brokerPrefix) }

    /// Where the broker listens.
    var brokerAddress: (host: String, port: Int) {
        get throws {
            let url = try #require(URLComponents(string: brokerURI))
            return (url.host ?? "127.0.0.1", url.port ?? 5672)
        }
    }

    var databaseAddress: (host: String, port: Int) {
        get throws {
            let url = try #require(URLComponents(string: databaseURI))
            return (url.host ?? "127.0.0.1", url.port ?? 5432)
        }
    }

    /// The broker's URI by way of a proxy on this machine.
    func brokerURI(through port: Int) throws -> String { try uri(brokerURI, through: port) }
    func databaseURI(through port: Int) throws -> String { try uri(databaseURI, through: port) }

    private func uri(_ uri: String, through port: Int) throws -> String {
        var url = try #require(URLComponents(string: uri))
        url.host = "127.0.0.1"
        url.port = port
        return try #require(url.string)
    }

    private func makeCredentials() throws {
        let script = Process()
        script.executableURL = URL(fileURLWithPath: "\(repositoryFolder)/deploy/scripts/make-credentials.sh")
        script.arguments = ["\(folder)/credentials"]
        try script.run()
        script.waitUntilExit()
        try #require(script.terminationStatus == 0, "deploy/scripts/make-credentials.sh failed")
    }
}

/// A service that answers, and the process behind it.
struct RunningService {
    let process: PlatformProcess
    let url: String
}

/// Runs a test with its own database and broker prefix, and removes both afterwards, even if the test fails.
func withPlatform(_ body: (Platform) async throws -> Void) async throws {
    let brokerURI = try TestBroker.uri()
    try await withTestDatabase { database, databaseURI in
        try await withTestBroker { _, topology in
            let platform = try Platform(
                databaseURI: databaseURI, database: database, brokerURI: brokerURI, brokerPrefix: topology.prefix)
            do {
                try await body(platform)
            } catch {
                await platform.stop(showLogs: true)
                throw error
            }
            await platform.stop(showLogs: false)
        }
    }
}

// MARK: - Small things

let repositoryFolder = #filePath.components(separatedBy: "/Tests/EndToEndTests/")[0]

private func port(of url: String) -> String { String(url.split(separator: ":").last ?? "") }

/// Asks until the program answers 2xx; fails when it ends first, or not in time.
private func waitUntilAnswers(_ url: String, _ process: PlatformProcess) async throws {
    try await PushAPI.with(baseURL: url, key: nil) { client in
        try await eventually("\(process.name) answers") {
            try #require(process.isRunning, "\(process.name) ended while starting:\n\(process.log.suffix(2000))")
            return await client.answers("") ? () : nil
        }
    }
}

/// Asks again, many times a second, until `answer` has one. For what a process of its own can only be asked.
/// - Parameter patience: A bound for a machine that is very busy, and no statement about how long it takes.
func eventually<Answer>(
    _ what: String, within patience: Duration = .seconds(180), pause: Duration = .milliseconds(50), _ answer: () async throws -> Answer?
) async throws -> Answer {
    let end = ContinuousClock.now + patience
    while true {
        // The last answer is asked for after the end.
        let isLast = ContinuousClock.now >= end
        if let value = try await answer() { return value }
        if isLast { throw NeverHappened(what: what, patience: patience) }
        try await Task.sleep(for: pause)
    }
}

struct NeverHappened: Error, CustomStringConvertible {
    let what: String
    let patience: Duration
    var description: String { "\(patience) passed and it is not so that \(what)" }
}
