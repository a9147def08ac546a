import ChaosLedger
import PushModel
import Synchronization
import TestSupport

/// Backends that send and devices that change, at an even rate, until the director ends the load.
final class LoadGenerator: Sendable {
    /// The largest number of requests in flight.
    private static let clients = 96

    let client: Client
    let fleet: Fleet
    let settings: RunSettings
    let pacer: Pacer
    private let random: SeededGenerator
    private let isOver = Atomic(false)

    init(client: Client, fleet: Fleet, settings: RunSettings, random: SeededGenerator) {
        (self.client, self.fleet, self.settings, self.random) = (client, fleet, settings, random)
        pacer = Pacer(rate: settings.size.rate)
    }

    /// Devices of every app, not registered yet.
    static func makeFleet(_ settings: RunSettings, _ random: SeededGenerator) -> Fleet {
        var random = random
        var devices: [Device] = []
        for (number, app) in ChaosApp.all.enumerated() {
            for index in 0..<settings.size.devicesPerApp {
                devices.append(
                    Device(
                        app: number, installation: drawID(&random), token: app.drawToken(&random),
                        user: drawUser(settings, &random), tags: ["group-\(index % 12)", index % 2 == 0 ? "even" : "odd"]))
            }
        }
        return Fleet(devices)
    }

    static func drawID(_ random: inout SeededGenerator) -> PushID { PushID(high: random.next(), low: random.next()) }

    static func drawUser(_ settings: RunSettings, _ random: inout SeededGenerator) -> String {
        user(Int.random(in: 0..<settings.size.usersPerApp, using: &random))
    }

    static func user(_ number: Int) -> String { "user-\(number)" }

    /// Every device registers once, before anything is broken.
    func registerAll() async throws {
        try await withThrowingDiscardingTaskGroup { group in
            for number in 0..<16 {
                group.addTask { [self] in
                    var random = random.branch(UInt64(10_000 + number))
                    while case (let place, var device)? = fleet.borrowUnregistered() {
                        device.isRegistered = true
                        let (record, _) = await client.ask(client.registration(device), &random)
                        fleet.giveBack(place, device)
                        guard record.status == 201 || record.status == 200 else {
                            throw ChaosError("a device could not be registered before anything was broken: \(record.status ?? 0)")
                        }
                    }
                }
            }
        }
    }

    /// Begins no more actions; running ones finish.
    func end() { isOver.store(true, ordering: .relaxed) }

    var hasSentEnough: Bool { client.tally.counts.meant >= settings.size.notifications }

    /// Returns after `end()`, when no request is in flight any more.
    func run() async {
        await withDiscardingTaskGroup { group in
            for number in 0..<Self.clients {
                group.addTask { [self] in
                    var random = random.branch(UInt64(number))
                    while !isOver.load(ordering: .relaxed) {
                        do { try await pacer.wait() } catch { return }  // the run is being ended
                        await act(&random)
                    }
                }
            }
        }
    }

    /// One random action of a backend or a device.
    private func act(_ random: inout SeededGenerator) async {
        let draw = Double.random(in: 0..<1, using: &random)
        switch draw {
        case ..<0.90: await send(&random)
        case ..<0.92: await sendLater(&random)
        case ..<0.93: await sendTwiceAtOnce(&random)
        case ..<0.945: await sendAndCancel(&random)
        case ..<0.9455: await hold(&random)
        default: await live(&random)
        }
    }
}
