import APNs
import Foundation
import OpenSSL
import PushModel
import Synchronization
import TestIdentity
import TestSupport
import Testing

@testable import Dispatcher

@Suite("Files of credentials that change", .timeLimit(.minutes(5)))
final class CredentialKeeperTests: Sendable {
    private let folder: String
    private let adopted = Mutex<[CredentialPlan]>([])
    private let reloads = Mutex<[Bool]>([])
    private let table: PoolTable

    init() throws {
        let loops = try APNsEventLoops(threads: 1)
        folder = try TestIdentity.configured.get().makeFolder()
        // Pools without a server, because the test does not use them.
        table = PoolTable(onFinished: { _ in }) { (plan, _) throws(TLSError) in
            try APNsPool(
                on: loops, credential: plan.credential, endpoint: APNsEndpoint(host: "127.0.0.1", port: FreePorts.closed),
                environment: plan.environment, gate: { _, _ in nil }, onFinished: { _ in }, logger: .silent)
        }
        try write(try ES256PrivateKey.generate().pem(), to: "a.p8")
        try write(file("a.p8"), to: "credentials.json")
    }

    deinit { table.shutDown(deadline: .zero) }

    private func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: URL(filePath: "\(folder)/\(name)"), options: .atomic)
    }

    private func file(_ key: String, apps: String = "shop") -> String {
        """
        {"v": 1, "credentials": [{"name": "shop", "team_id": "TEAM000001", "key_id": "KEY0000001", "key_file": "\(key)",
          "environments": ["production"], "apps": ["\(apps)"]}]}
        """
    }

    private func keeper() throws -> CredentialKeeper {
        let path = "\(folder)/credentials.json"
        let keeper = try CredentialKeeper(
            path: path, file: CredentialsFile(path: path), table: table, logger: .silent,
            counted: { [self] isAdopted in reloads.withLock { $0.append(isAdopted) } },
            adopt: { [self] plan in adopted.withLock { $0.append(plan) } })
        keeper.begin()
        return keeper
    }

    private var plans: [CredentialPlan] { adopted.withLock { $0 } }

    @Test("A changed key is taken over once its file has come to rest")
    func takesOver() throws {
        let keeper = try keeper()
        keeper.look()
        #expect(keeper.standing == .current && plans.isEmpty)
        try write(try ES256PrivateKey.generate().pem(), to: "a.p8")
        keeper.look()
        #expect(keeper.standing == .changing && plans.isEmpty)
        try write(try ES256PrivateKey.generate().pem(), to: "a.p8")
        keeper.look()
        #expect(plans.isEmpty, "it changed once more meanwhile")
        keeper.look()
        #expect(plans.count == 1)
        #expect(plans.first?.pools.map(\.number) == [1])
        #expect(keeper.standing == .current)
        #expect(Set(table.serving.map(\.number)) == [0, 1], "the old pool serves until the core has changed over")
        keeper.look()
        keeper.look()
        #expect(plans.count == 1)
        #expect(reloads.withLock { $0 } == [true])
    }

    @Test(
        "An invalid file changes nothing and is reported, and the next change repairs it",
        arguments: ["{", "{\"v\": 1, \"credentials\": []}"])
    func keepsTheOld(broken: String) throws {
        let keeper = try keeper()
        try write(broken, to: "credentials.json")
        for _ in 0..<3 { keeper.look() }
        guard case .refused(let why) = keeper.standing else {
            Issue.record("\(keeper.standing)")
            return
        }
        #expect(why.contains("credentials.json"))
        #expect(plans.isEmpty)
        #expect(reloads.withLock { $0 } == [false], "reported once")
        #expect(table.serving.map(\.number) == [0])
        try write(file("a.p8", apps: "store"), to: "credentials.json")
        for _ in 0..<3 { keeper.look() }
        #expect(keeper.standing == .current)
        #expect(plans.map { $0.pools.map(\.number) } == [[1]])
    }

    @Test("A request reads the files at once, changed or not, and a broken file changes nothing")
    func readsWhenAsked() throws {
        let keeper = try keeper()
        try write(file("a.p8", apps: "store"), to: "credentials.json")
        keeper.reload()
        #expect(plans.map { $0.pools.map(\.number) } == [[1]], "the keeper did not wait for a second look")
        keeper.reload()
        #expect(plans.map { $0.pools.map(\.number) } == [[1], [1]], "nothing has changed: the same pool")
        try write("{", to: "credentials.json")
        keeper.reload()
        #expect(plans.count == 2)
        #expect(reloads.withLock { $0 } == [true, true, false])
        guard case .refused = keeper.standing else {
            Issue.record("\(keeper.standing)")
            return
        }
        keeper.look()
        keeper.look()
        #expect(reloads.withLock { $0 }.count == 3, "reported once")
    }

    @Test("The keeper waits for a key file that is missing")
    func waitsForAKey() throws {
        let keeper = try keeper()
        try write(file("b.p8"), to: "credentials.json")
        for _ in 0..<3 { keeper.look() }
        #expect(plans.isEmpty)
        try write(try ES256PrivateKey.generate().pem(), to: "b.p8")
        for _ in 0..<3 { keeper.look() }
        #expect(plans.count == 1)
        #expect(keeper.standing == .current)
    }

    @Test("A link that is turned to other files is a change, as orchestrators mount secrets")
    func followsLinks() throws {
        for version in ["v1", "v2"] {
            try FileManager.default.createDirectory(atPath: "\(folder)/\(version)", withIntermediateDirectories: true)
            try write(try ES256PrivateKey.generate().pem(), to: "\(version)/a.p8")
        }
        try FileManager.default.createSymbolicLink(atPath: "\(folder)/data", withDestinationPath: "v1")
        try write(file("data/a.p8"), to: "credentials.json")
        let keeper = try keeper()
        for _ in 0..<3 { keeper.look() }
        #expect(plans.isEmpty)
        try FileManager.default.removeItem(atPath: "\(folder)/data")
        try FileManager.default.createSymbolicLink(atPath: "\(folder)/data", withDestinationPath: "v2")
        for _ in 0..<3 { keeper.look() }
        #expect(plans.count == 1)
    }

    @Test("A file that was only written anew keeps every pool")
    func keepsPools() throws {
        let keeper = try keeper()
        try write(file("a.p8") + "\n", to: "credentials.json")
        for _ in 0..<3 { keeper.look() }
        #expect(plans.map { $0.pools.map(\.number) } == [[0]])
    }
}

@Suite("The proof of a credential")
struct CredentialProofTests {
    @Test(
        "An answer that only a known provider gets is proof, whatever it says of the device",
        arguments: [
            (200, nil, .proven), (400, "BadDeviceToken", .proven), (400, "DeviceTokenNotForTopic", .proven), (410, "Unregistered", .proven),
            (400, "TopicDisallowed", .wrongTopic(reason: "TopicDisallowed")), (400, "BadTopic", .wrongTopic(reason: "BadTopic")),
            (403, "InvalidProviderToken", .refused(reason: "InvalidProviderToken")), (403, nil, .refused(reason: "403")),
            (500, "InternalServerError", .open), (503, "Shutdown", .open),
        ] as [(Int, String?, CredentialProof.Finding)])
    func findings(status: Int, reason: String?, finding: CredentialProof.Finding) {
        #expect(CredentialProof.finding(.response(status: status, reason: reason, timestamp: nil, retryAfter: nil)) == finding)
    }

    @Test("Without an answer nothing is proven")
    func open() {
        #expect(CredentialProof.finding(.notSent(.notConnected)) == .open)
        #expect(CredentialProof.finding(.unknown(.timedOut)) == .open)
    }

    @Test(
        "The proof shows nothing on a device, is not stored, and has the push type of its topic",
        arguments: [
            ("com.example.shop", PushType.background), ("com.example.shop.voip", .voip), ("com.example.shop.voip-ptt", .pushtotalk),
            ("com.example.shop.push-type.liveactivity", .liveactivity),
        ])
    func isHarmless(topic: String, type: PushType) throws {
        let batch = CredentialProof.batch(topic: topic, now: 1_000)
        #expect(batch.pushType == type)
        #expect(type.allowedPriorities.contains(batch.priority))
        #expect(batch.expiration == 0)
        #expect(batch.requests.map(\.token.hex) == [String(repeating: "0", count: 64)])
        #expect(batch.payload == Array(#"{"aps":{"content-available":1}}"#.utf8))
    }
}
