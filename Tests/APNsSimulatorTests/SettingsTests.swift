import APNsSimulator
import Configuration
import Foundation
import Logging
import Observability
import OpenSSL
import Synchronization
import SystemIO
import TestIdentity
import TestSupport
import Testing

@Suite("Settings are read once, strictly, and documented")
struct SettingsTests {
    private static let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })

    /// The keys that were read.
    private final class Asked: AccessReporter {
        let keys = Mutex<Set<String>>([])

        func report(_ event: AccessEvent) {
            keys.withLock { _ = $0.insert(event.metadata.key.description) }
        }
    }

    private func read(_ changes: [String: String] = [:], asked: Asked? = nil, keys: String? = nil) throws -> APNsSimulatorConfiguration {
        let identity = try TestIdentity.shared.get()
        let folder = identity.directory + "/" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Data(identity.key.publicKey.pem().utf8).write(to: URL(filePath: folder + "/key.pub"))
        try Data(identity.key.pem().utf8).write(to: URL(filePath: folder + "/key.p8"))
        let good = #"{"v":1,"keys":[{"team_id":"T","key_id":"K","public_key_file":"key.pub","environments":["sandbox"],"topics":["a.b"]}]}"#
        try Data((keys ?? good).utf8).write(to: URL(filePath: folder + "/keys.json"))
        let environment = [
            "TLS_CERTIFICATE_FILE": identity.certificateFile, "TLS_KEY_FILE": identity.keyFile, "KEYS_FILE": folder + "/keys.json",
        ].merging(changes) { _, change in change }
        let config = ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: environment), accessReporter: asked)
        _ = try APNsSimulatorConfiguration.logLevel(config)
        return try APNsSimulatorConfiguration(config, logger: Self.logger)
    }

    @Test("The defaults are those of the table")
    func defaults() throws {
        let settings = try read()
        #expect(settings.host == "127.0.0.1")
        #expect(settings.productionPort == 2197)
        #expect(settings.sandboxPort == 2198)
        #expect(settings.controlPort == 2199)
        #expect(settings.streams == 1000)
        #expect(settings.streamGate)
        #expect(settings.streamPenalty)
        #expect(settings.unknownDevices == .accept)
        #expect(settings.journalCapacity == 200_000)
        #expect(settings.threads == 1)
        #expect(settings.keys.map(\.keyID) == ["K"])
        #expect(settings.keys.first?.environments == [.sandbox])
        #expect(settings.keys.first?.topics == ["a.b"])
    }

    @Test("Every setting that is read is in the table, and no other")
    func documented() throws {
        let asked = Asked()
        _ = try read(asked: asked)
        let documented = Set(SimulatorSetting.all.map(\.variable))
        let read = asked.keys.withLock { $0 }
        #expect(Set(read.map { ConfigurationError.variable($0) }) == documented)
    }

    @Test(
        "A wrong setting is one sentence with its variable",
        arguments: [
            ("PRODUCTION_PORT", "70000"), ("STREAMS", "0"), ("STREAM_PENALTY", "maybe"), ("UNKNOWN_DEVICES", "ignore"), ("THREADS", "none"),
            ("BROADCASTS_PER_SECOND", "-1"), ("ACTIVITY_BUDGET_PER_HOUR", "many"),
            ("KEYS_FILE", "/nowhere/keys.json"), ("TLS_KEY_FILE", "/nowhere/key.pem"), ("LOG_LEVEL", "loud"),
        ])
    func wrong(_ variable: String, _ value: String) throws {
        let error = #expect(throws: ConfigurationError.self) { try read([variable: value]) }
        #expect(error?.variable == variable)
    }

    @Test(
        "The simulator refuses an invalid keys file",
        arguments: [
            "{", "{}", #"{"v":2,"keys":[]}"#, #"{"v":1,"keys":[],"more":1}"#,
            #"{"v":1,"keys":[{"team_id":"T","key_id":"K","environments":["sandbox"]}]}"#,
            #"{"v":1,"keys":[{"team_id":"T","key_id":"K","public_key_file":"key.pub","environments":["moon"]}]}"#,
            #"{"v":1,"keys":[{"team_id":"T","key_id":"K","public_key_file":"nothing.pub","environments":["sandbox"]}]}"#,
            #"{"v":1,"keys":[{"team_id":"T","key_id":"K","public_key_file":"key.p8","environments":["sandbox"]}]}"#,
        ])
    func wrongKeys(_ keys: String) throws {
        let error = #expect(throws: ConfigurationError.self) { try read(keys: keys) }
        #expect(error?.variable == "KEYS_FILE")
    }

    @Test("A keys file may name the private key itself")
    func privateKey() throws {
        let settings = try read(
            keys: #"{"v":1,"keys":[{"team_id":"T","key_id":"K","key_file":"key.p8","environments":["production","sandbox"]}]}"#)
        let message = Array("message".utf8)
        let signature = try TestIdentity.shared.get().key.sign(message)
        #expect(settings.keys.first?.publicKey.isValid(signature: signature, for: message) == true)
        #expect(settings.keys.first?.topics == nil)
    }

    @Test("The simulator reports an unusable certificate before a port opens")
    func certificate() throws {
        var settings = try read()
        settings.certificateFile = "/nowhere.pem"
        let error = #expect(throws: SimulatorError.self) { try APNsSimulator(settings, logger: Self.logger) }
        #expect(error?.code == .configuration)
    }

    @Test("The simulator reports a port that is taken and releases the others")
    func takenPort() async throws {
        let settings = try read()
        try await withSimulator { test in
            var second = settings
            let free = try FreePorts.choose(3)
            (second.productionPort, second.sandboxPort) = (free[0], test.simulator.productionPort)
            (second.productionManagementPort, second.sandboxManagementPort) = (free[1], free[2])
            // Kept alive to the end, so that any port that it still held would be taken now.
            let simulators = try (0..<8).map { _ in try APNsSimulator(second, logger: Self.logger) }
            for simulator in simulators {
                let error = #expect(throws: SimulatorError.self) { try simulator.start() }
                #expect(error?.code == .listening)
                for port in free { try TCPListener(host: "127.0.0.1", port: port).close() }
            }
        }
    }
}
