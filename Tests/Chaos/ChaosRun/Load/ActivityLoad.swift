import ChaosLedger
import PushModel
import Synchronization
import TestSupport

/// Phones with Live Activities, and the backends that start, update and end them.
final class ActivityLoad: Sendable {
    /// Activities that backends attend to at a time.
    private static let backends = 10
    /// Longer than an update token takes to come in any fault, and short enough that the run need not wait for an update without one.
    private static let lifetime: Int64 = 60_000_000

    let phones: [Phone]
    private let client: Client
    private let seed: UInt64
    private let random: SeededGenerator
    private let isOver = Atomic(false)

    init(client: Client, settings: RunSettings, random: SeededGenerator) {
        (self.client, self.random, seed) = (client, random, settings.seed)
        var draws = random
        let restless = (0..<settings.size.phonesPerApp / 2).map { "rider-\($0)" }
        phones = client.apps.indices.flatMap { app in
            (0..<settings.size.phonesPerApp).map { number in
                // A steady user has two phones where the app allows that.
                let steady = "steady-\(client.apps[app].policy == "single" ? number : number / 4)"
                let users = number.isMultiple(of: 2) ? restless : [steady]
                let device = Device(
                    app: app, installation: LoadGenerator.drawID(&draws), token: client.apps[app].drawToken(&draws),
                    user: users.randomElement(using: &draws), startToken: client.apps[app].drawToken(&draws), tags: ["rider"])
                return Phone(device, users: users, client: client)
            }
        }
    }

    func prepare() async throws {
        var random = random
        for phone in phones { try await phone.prepare(&random) }
    }

    /// The phones live until the task is cancelled. Their persons rest when the backends do.
    func live() async {
        await withDiscardingTaskGroup { group in
            for (number, phone) in phones.enumerated() {
                group.addTask { [self] in await phone.live(random.branch(UInt64(number))) { [self] in !isOver.load(ordering: .relaxed) } }
            }
        }
    }

    /// Begins no more activities; those that run are attended to until their backends have done with them.
    func end() { isOver.store(true, ordering: .relaxed) }

    /// Returns after `end()`.
    func run() async {
        guard !phones.isEmpty else { return }
        await withDiscardingTaskGroup { group in
            for number in 0..<Self.backends {
                group.addTask { [self] in
                    var random = random.branch(UInt64(1_000 + number))
                    while !isOver.load(ordering: .relaxed), !Task.isCancelled { await ride(&random) }
                }
            }
        }
    }

    /// Every activity's update token has been reported.
    func isAtRest() async -> Bool {
        for phone in phones where !(await phone.hasReportedAll) { return false }
        return true
    }

    func readBack() async throws { for phone in phones { client.ledgers.note(try await phone.shown()) } }

    // MARK: Backends

    /// One activity from its start to its end. Some are never ended.
    private func ride(_ random: inout SeededGenerator) async {
        await pause(Double.random(in: 0...0.5, using: &random))
        guard let phone = phones.randomElement(using: &random), let user = await phone.user else { return }
        let ride = Client.Ride(app: phone.app, user: user, id: "ride-\(client.ledgers.nextID())")
        var timestamp = now() / 1_000_000
        guard await send(.start, of: ride, timestamp, &random) == 202 else { return }
        let pace = random.chance(0.5) ? 0.5 : 0.02
        for _ in 0..<Int.random(in: 0...(random.chance(0.3) ? 2 : 25), using: &random) {
            await pause(Double.random(in: 0...pace, using: &random))
            let next = max(now() / 1_000_000, timestamp + 1)
            switch Double.random(in: 0..<1, using: &random) {
            case ..<0.1: await sendTogether([next, next + 1], of: ride, &random)
            // A request that comes late.
            case ..<0.15: await send(.update, of: ride, timestamp - 1, &random)
            default: await send(.update, of: ride, next, &random)
            }
            timestamp = next + 1
        }
        if random.chance(0.8) { await send(.end, of: ride, max(now() / 1_000_000, timestamp + 1), &random) }
    }

    /// The order in which the platform accepts them is open.
    private func sendTogether(_ timestamps: [Int64], of ride: Client.Ride, _ random: inout SeededGenerator) async {
        await withDiscardingTaskGroup { group in
            for timestamp in timestamps {
                let branch = random.branch(UInt64(timestamp))
                group.addTask { [self] in
                    var random = branch
                    await send(.update, of: ride, timestamp, &random)
                }
            }
        }
    }

    @discardableResult
    private func send(
        _ event: ClientRecord.ActivityEvent, of ride: Client.Ride, _ timestamp: Int64, _ random: inout SeededGenerator
    ) async -> Int? {
        client.tally.change { $0.meant += 1 }
        let marker = client.ledgers.nextMarker()
        let state = Client.RideState(
            event: event, marker: marker, timestamp: timestamp, expiresAt: now() / 1000 * 1000 + Self.lifetime,
            priority: event == .start || random.chance(0.3) ? 10 : 5,
            dismissalDate: event == .end && random.chance(0.5) ? timestamp + 3600 : nil)
        let status = await client.ask(client.send(state, of: ride, key: "chaos-\(seed)-\(marker)"), &random).record.status
        if status != 202 { client.tally.change { $0.abandoned += 1 } }
        return status
    }

    /// The pace of a backend, on which no check depends.
    private func pause(_ seconds: Double) async { do { try await Task.sleep(for: .seconds(seconds)) } catch { return } }
}
