import APNsSimulator
import Logging
import OpenSSL
import Synchronization
import SystemIO
import TestIdentity
import Testing

/// A running simulator, and the credentials for pushing through it.
struct TestSimulator: Sendable {
    let simulator: APNsSimulator
    let identity: TestIdentity
    let clock: ManualClock
    /// A provider token, good for an hour. Every signature differs, so a second one would be another token.
    let token: String

    /// Another provider token, of this moment unless the test gives an age.
    func bearer(teamID: String = TestIdentity.teamID, keyID: String = TestIdentity.keyID, secondsAgo: Int64 = 0) throws -> String {
        try identity.key.bearer(teamID: teamID, keyID: keyID, issuedAt: clock.now / 1000 - secondsAgo)
    }

    func client(_ environment: SimulatorEnvironment = .production) throws -> PushClient {
        try PushClient(port: simulator.port(environment))
    }

    /// A good push with the one good token.
    func push() -> TestPush {
        TestPush().with("authorization", token)
    }
}

/// Wall time that passes only when the test moves it.
final class ManualClock: Sendable {
    private let milliseconds: Mutex<Int64>

    init(_ milliseconds: Int64 = WallClock.milliseconds()) { self.milliseconds = Mutex(milliseconds) }

    var now: Int64 { milliseconds.withLock { $0 } }

    func advance(by duration: Duration) {
        milliseconds.withLock { $0 += duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000 }
    }
}

/// Starts a simulator on free ports and stops it after the body, even if the body throws.
func withSimulator<R>(
    _ change: (inout APNsSimulatorConfiguration) throws -> Void = { _ in }, _ body: (TestSimulator) async throws -> R
) async throws -> R {
    try await withUnstartedSimulator(change) { test in
        try test.simulator.start()
        return try await body(test)
    }
}

func withUnstartedSimulator<R>(
    _ change: (inout APNsSimulatorConfiguration) throws -> Void, _ body: (TestSimulator) async throws -> R
) async throws -> R {
    let identity = try TestIdentity.shared.get()
    let clock = ManualClock()
    var configuration = APNsSimulatorConfiguration(
        certificateFile: identity.certificateFile, keyFile: identity.keyFile,
        keys: [ProviderKey(teamID: TestIdentity.teamID, keyID: TestIdentity.keyID, publicKey: identity.key.publicKey)])
    configuration.clock = { clock.now }
    try change(&configuration)
    let simulator = try APNsSimulator(configuration, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    defer { simulator.stop() }
    let token = try identity.key.bearer(issuedAt: clock.now / 1000)
    return try await body(TestSimulator(simulator: simulator, identity: identity, clock: clock, token: token))
}
