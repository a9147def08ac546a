import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import PushAPI
import PushClient
import StrictJSON
import Synchronization
import TestDevice
import TestSupport
import Testing

/// The app's library over a network that loses requests and answers, in processes that are killed, against the real services.
///
/// The services live in real time. Each device has a time of its own, in which it lives ten minutes at least, and weeks without network:
/// the time passes between its requests, by leaps, so the library's delays have their full length there. Its date jumps by hours and years.
@Suite("The app's side against the real services", .timeLimit(.minutes(20)))
struct AppSideTests {
    private static let users = ["ada", "grace", "alan"]
    /// PUSH_TEST_DEVICES: fewer repeat a failure, and 10,000 by hand find more.
    private static let deviceCount = ProcessInfo.processInfo.environment["PUSH_TEST_DEVICES"].flatMap { Int($0) } ?? 2_500

    /// A failure names a device's seed. With it as PUSH_TEST_SEED and PUSH_TEST_DEVICES=1, that device lives again.
    private static var seed: UInt64 {
        ProcessInfo.processInfo.environment["PUSH_TEST_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: .min ... .max)
    }

    @Test("Devices with random lives end as each wants it, and a push reaches the devices on which its user is signed in, and no others")
    func randomLives() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let service = try await platform.startTokenService(try platform.deviceCredentials())
            try await platform.startDispatcher()
            try await Client.with(platform, service) { client in
                let backend = AppBackend(url: service.url, key: try #require(client.service.key))
                let seed = Self.seed
                print("AppSideTests: \(Self.deviceCount) devices, seed \(seed)")
                let wanted = try await Self.live(seed: seed, backend)
                #expect(wanted.count == Self.deviceCount)
                for user in Self.users {
                    let before = Set(try await client.arrivals().map(\.apnsID))
                    let id = try await client.send("for \(user)", to: user)
                    _ = try await client.completed(id)
                    let arrived = try await client.arrivals().filter { !before.contains($0.apnsID) }
                    let expected = wanted.filter { $0.user == user }.map(\.token)
                    #expect(Set(arrived.map(\.token)) == Set(expected), "seed \(seed), \(user)")
                    #expect(arrived.count == expected.count, "no device gets it twice")
                }
            }
        }
    }

    private static func live(seed: UInt64, _ backend: AppBackend) async throws -> [Wanted] {
        let numbers = Numbers(upTo: deviceCount)
        return try await withThrowingTaskGroup(of: [Wanted].self) { group in
            for _ in 0..<16 {
                group.addTask {
                    var ends: [Wanted] = []
                    while let number = numbers.next() {
                        var device = Device(seed &+ UInt64(number), backend)
                        ends.append(try await device.live())
                    }
                    return ends
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
    }

    /// What a device wants at the end, which the server has by then.
    struct Wanted: Sendable {
        let user: String?
        let token: String
    }

    /// One device and its life.
    private struct Device {
        private let seed: UInt64
        private let backend: AppBackend
        private let clock = TestClock()
        private let radio = Radio()
        private let late = LateRequests()
        private var disk = Disk()
        private var backup: [PushStoreItem: Data] = [:]
        /// The lost installation has this token at the server, until a registration takes it. No other event comes between the two: then
        /// only APNs' answer 410 would end the token, and the simulator knows no uninstalled apps.
        private var hasLostItsID = false
        private var random: SeededGenerator
        private var token: Data
        private var process = Life()
        private var client: PushClient

        init(_ seed: UInt64, _ backend: AppBackend) {
            self.seed = seed
            self.backend = backend
            random = SeededGenerator(seed: seed)
            token = Self.newToken(&random)
            client = Self.launch(disk, token, clock, Network(backend, process, radio, late, &random), process, &random)
            sayProfile()
        }

        mutating func live() async throws -> Wanted {
            for _ in 0..<Int.random(in: 6...16, using: &random) {
                try await step()
                if Bool.random(using: &random) { await rest() }
            }
            await rest()
            return try await end()
        }

        private mutating func step() async throws {
            switch Int.random(in: 0..<18, using: &random) {
            case 0...3: client.signIn(as: users.randomElement(using: &random) ?? "ada")
            case 4, 5: client.signOut()
            case 6 where !hasLostItsID: client.deregister()
            case 7: kill()
            case 8: try await deliverLate()
            case 9 where !hasLostItsID:
                // A move to a new phone, or a restore: the keychain comes along, and Apple gives another token.
                token = Self.newToken(&random)
                kill()
            case 10 where !hasLostItsID:
                // A reinstall: the keychain stays.
                disk.items.withLock { $0[.record] = nil }
                token = Self.newToken(&random)
                kill()
                sayProfile()
            case 11: try await loseID()
            case 12: backup = disk.items.withLock { $0 }
            case 13 where !hasLostItsID && !backup.isEmpty:
                // An older, encrypted backup of this same device. It knows nothing of later requests, and none of them outlives a restore.
                await client.settled()
                _ = await late.take()
                disk.items.withLock { $0 = backup }
                token = Self.newToken(&random)
                kill()
            case 14: await beOffline()
            case 15, 16: clock.jump(seconds: Self.jumps.randomElement(using: &random) ?? 0)
            default: client.retryNow()
            }
        }

        private static let jumps: [TimeInterval] = [3_600, -3_600, 86_400, -604_800, 315_360_000, -630_720_000]

        private func sayProfile() {
            client.updateProfile {
                $0.appTags = ["t"]
                $0.permission = .provisional
            }
        }

        /// No request is in flight now, and one to ten minutes pass.
        private mutating func rest() async {
            await client.settled()
            if client.status?.isUploaded == true { hasLostItsID = false }
            clock.advance(by: .seconds(Int.random(in: 60...600, using: &random)))
        }

        /// Weeks: the person signs in and out, and starts the app again.
        private mutating func beOffline() async {
            radio.isOn.withLock { $0 = false }
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                switch Int.random(in: 0..<4, using: &random) {
                case 0: client.signIn(as: users.randomElement(using: &random) ?? "ada")
                case 1: client.signOut()
                case 2: kill()
                default: client.retryNow()
                }
                await client.settled()
                clock.advance(by: .seconds(5 * 86_400))
            }
            radio.isOn.withLock { $0 = true }
        }

        /// The restore of another device's files: without the keychain the installation gets a new id. Apple gives the same token.
        private mutating func loseID() async throws {
            await client.settled()
            // The server must have this token, or nothing takes it from the lost installation. A late registration may have brought an
            // earlier one back, until the next launch.
            guard let status = client.status, status.isUploaded, !status.isDeregistered, try await serverHasToken(status.installation)
            else { return }
            // A late registration of the lost installation would take the token back. No request outlives a reinstall.
            _ = await late.take()
            let files = disk.items.withLock { $0[.record] }
            // What the dead process has in flight still writes to its own disk.
            disk = Disk()
            let others = backend.backups.withLock { backups in
                defer { backups = files }
                return backups
            }
            disk.items.withLock { $0[.record] = others }
            (backup, hasLostItsID) = ([:], true)
            kill()
            sayProfile()
        }

        private func serverHasToken(_ installation: UUID) async throws -> Bool {
            let tokens = try await backend.read(installation).record["tokens"]?.arrayValue ?? []
            return tokens.contains { $0["state"]?.stringValue == "active" && $0["token"]?.stringValue == hex }
        }

        private var hex: String { token.map { String(format: "%02x", $0) }.joined() }

        /// Requests whose sender has given up reach the server now. After a sign-out that the server has answered, they sign no user in.
        private func deliverLate() async throws {
            await client.settled()
            let status = client.status
            for request in await late.take() { _ = try await backend.send(request) }
            guard let status, status.isUploaded, status.user == nil else { return }
            let (code, record) = try await backend.read(status.installation)
            #expect(code == 404 || record["user"]?.isNull == true, "seed \(seed): a late request signed a user in")
        }

        /// What is in flight may still reach the server. The process stores nothing any more.
        private mutating func kill() {
            process.end()
            process = Life()
            client = Self.launch(disk, token, clock, Network(backend, process, radio, late, &random), process, &random)
        }

        private static func launch(
            _ disk: Disk, _ token: Data, _ clock: TestClock, _ network: Network, _ life: Life, _ random: inout SeededGenerator
        ) -> PushClient {
            let configuration = PushConfiguration(
                app: Client.app, environment: .production, server: .tokenService(network, credentials: network),
                store: LifeStore(disk: disk, life: life))
            let inbox = PushInbox()
            // Before the client exists: an early token is kept.
            if Bool.random(using: &random) {
                inbox.put(.token(token, purpose: .alert))
                return PushClient(configuration, inbox: inbox, clock: clock)
            }
            let client = PushClient(configuration, inbox: inbox, clock: clock)
            inbox.put(.token(token, purpose: .alert))
            return client
        }

        /// The network is good from here on.
        private mutating func end() async throws -> Wanted {
            try await deliverLate()
            process.end()
            let life = Life()
            let configuration = PushConfiguration(
                app: Client.app, environment: .production, server: .tokenService(backend, credentials: backend),
                store: LifeStore(disk: disk, life: life))
            let inbox = PushInbox()
            let last = PushClient(configuration, inbox: inbox, clock: clock)
            inbox.put(.token(token, purpose: .alert))
            let (seed, clock) = (seed, clock)
            let status = try await eventually("the device with seed \(seed) has uploaded its state") {
                last.retryNow()
                await last.settled()
                // A server's Retry-After passes too.
                clock.advance(by: .seconds(60))
                return last.status.flatMap { $0.isUploaded ? $0 : nil }
            }
            let (code, record) = try await backend.read(status.installation)
            if status.isDeregistered {
                #expect(code == 404, "seed \(seed)")
            } else {
                #expect(code == 200 && record["user"]?.stringValue == status.user, "seed \(seed)")
                let active = record["tokens"]?.arrayValue?.filter { $0["state"]?.stringValue == "active" } ?? []
                #expect(active.compactMap { $0["token"]?.stringValue } == [hex], "seed \(seed)")
                #expect(record["permission"]?.stringValue == "provisional", "seed \(seed)")
            }
            return Wanted(user: status.user, token: hex)
        }

        private static func newToken(_ random: inout SeededGenerator) -> Data {
            Data((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) })
        }
    }
}

// MARK: The company's backend

/// Has the API key, which no app has.
private final class AppBackend: PushTransport, CredentialSource {
    let url: String
    let key: String
    /// The files of a device that was backed up last, for the next device that is restored from a foreign backup.
    let backups = Mutex<Data?>(nil)

    init(url: String, key: String) {
        self.url = url
        self.key = key
    }

    func send(_ request: PushRequest) async throws -> PushResponse {
        try await call(request.method, request.path, request.headers, request.body)
    }

    func credential(installation: UUID, user: String?) async throws -> DeviceCredential? {
        var body = JSONWriter()
        body.object { writer in
            writer.field("installation", installation.uuidString.lowercased())
            writer.name("user")
            if let user { writer.value(user) } else { writer.null() }
        }
        let answer = try await call(
            "POST", "/v1/apps/\(Client.app)/device-credentials",
            ["Authorization": "Bearer \(key)", "Content-Type": "application/json"], Data(body.bytes))
        guard answer.status == 201 else { throw Lost() }
        return try DeviceCredential(answer: answer.body)
    }

    func read(_ installation: UUID) async throws -> (status: Int, record: JSONValue) {
        let answer = try await call(
            "GET", "/v1/apps/\(Client.app)/installations/\(installation.uuidString.lowercased())?tokens=full",
            ["Authorization": "Bearer \(key)"], nil)
        return (answer.status, try JSONValue.parse(Array(answer.body)))
    }

    private func call(_ method: String, _ path: String, _ headers: [String: String], _ body: Data?) async throws -> PushResponse {
        var request = HTTPClientRequest(url: url + path)
        request.method = HTTPMethod(rawValue: method)
        for (name, value) in headers { request.headers.replaceOrAdd(name: name, value: value) }
        if let body { request.body = .bytes(ByteBuffer(bytes: body)) }
        let response = try await HTTPClient.shared.execute(request, timeout: .minutes(5))
        let content = try await response.body.collect(upTo: 1 << 20)
        let fields = Dictionary(response.headers.map { ($0.name, $0.value) }) { first, _ in first }
        return PushResponse(status: Int(response.status.code), headers: fields, body: Data(content.readableBytesView))
    }
}

private struct Lost: Error {}

/// Loses one request in eight and one answer in eight, keeps one in eight for later, and gives a dead process no answer.
private final class Network: PushTransport, CredentialSource {
    private let backend: AppBackend
    private let life: Life
    private let radio: Radio
    private let late: LateRequests
    private let random: Mutex<SeededGenerator>

    init(_ backend: AppBackend, _ life: Life, _ radio: Radio, _ late: LateRequests, _ random: inout SeededGenerator) {
        self.backend = backend
        self.life = life
        self.radio = radio
        self.late = late
        self.random = Mutex(SeededGenerator(seed: random.next()))
    }

    func send(_ request: PushRequest) async throws -> PushResponse {
        try lose()
        if random.withLock({ Int.random(in: 0..<8, using: &$0) }) == 0 {
            late.add(request)
            throw Lost()
        }
        late.begin()
        defer { late.end() }
        let answer = try await backend.send(request)
        try lose()
        return answer
    }

    func credential(installation: UUID, user: String?) async throws -> DeviceCredential? {
        try lose()
        return try await backend.credential(installation: installation, user: user)
    }

    private func lose() throws {
        guard life.isAlive, radio.isOn.withLock({ $0 }), random.withLock({ Int.random(in: 0..<8, using: &$0) }) > 0 else { throw Lost() }
    }
}

/// A device's requests that outlive their sender: the sender has given up, or its process has ended.
private final class LateRequests: Sendable {
    private struct State {
        var requests: [PushRequest] = []
        var underWay = 0
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    func add(_ request: PushRequest) { state.withLock { $0.requests.append(request) } }

    /// The backend has this device's request until ``end()``.
    func begin() { state.withLock { $0.underWay += 1 } }

    func end() {
        let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            state.underWay -= 1
            guard state.underWay == 0 else { return [] }
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Those whose sender has given up. All others have reached the server by then.
    func take() async -> [PushRequest] {
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state in
                guard state.underWay > 0 else { return true }
                state.waiters.append(continuation)
                return false
            }
            if isIdle { continuation.resume() }
        }
        return state.withLock { state in
            defer { state.requests = [] }
            return state.requests
        }
    }
}

// MARK: The device

/// Counts for many tasks.
private final class Numbers: Sendable {
    private let end: Int
    private let count = Mutex(0)

    init(upTo end: Int) { self.end = end }

    func next() -> Int? {
        count.withLock { count in
            defer { count += 1 }
            return count < end ? count : nil
        }
    }
}

/// One process of the app.
private final class Life: Sendable {
    private let alive = Mutex(true)

    var isAlive: Bool { alive.withLock { $0 } }
    func end() { alive.withLock { $0 = false } }
}

/// Of a device, for all its processes.
private final class Radio: Sendable {
    let isOn = Mutex(true)
}

private final class Disk: Sendable {
    let items = Mutex<[PushStoreItem: Data]>([:])
}

/// A dead process writes nothing.
private struct LifeStore: PushStore {
    let disk: Disk
    let life: Life

    func read(_ item: PushStoreItem) throws -> Data? { disk.items.withLock { $0[item] } }

    func write(_ data: Data?, for item: PushStoreItem) throws {
        guard life.isAlive else { throw Lost() }
        disk.items.withLock { $0[item] = data }
    }
}
