import ChaosLedger
import PushModel
import TestSupport

/// The actions of backends.
extension LoadGenerator {
    /// Notifications live for an hour, which is longer than any run.
    func send(_ random: inout SeededGenerator) async {
        let app = Int.random(in: client.apps.indices, using: &random)
        let audience = drawAudience(app, &random)
        // Some backends accept a second push: they send no key and do not repeat the request.
        let isCareful = !random.chance(0.03)
        var timing = Client.Timing()
        // Some notifications expire soon.
        if random.chance(0.04) { timing.expiresAt = moment(after: Double.random(in: 1.2...4, using: &random)) }
        let lane = drawLane(for: audience, &random)
        let id = await post(app, audience, timing, lane: lane, isCareful: isCareful, &random)
        guard random.chance(0.02), let id else { return }
        await client.ask(client.reading(id, app: app), &random)
    }

    /// A notification that is scheduled for later.
    func sendLater(_ random: inout SeededGenerator) async {
        let app = Int.random(in: client.apps.indices, using: &random)
        let due = moment(after: Double.random(in: 1...6, using: &random))
        _ = await post(app, drawAudience(app, &random), Client.Timing(notBefore: due), isCareful: true, &random)
    }

    /// The same request from several clients at the same moment: one key, one notification.
    func sendTwiceAtOnce(_ random: inout SeededGenerator) async {
        let app = Int.random(in: client.apps.indices, using: &random)
        let marker = mean()
        let question = client.notification(app, to: drawAudience(app, &random), marker: marker, key: key(marker))
        await client.askTogether(question, times: Int.random(in: 2...6, using: &random))
        // In any case a careful client asks until it knows the result.
        finish(await client.ask(question, &random).record.status)
    }

    /// Some notifications are called back: scheduled ones before they are due, others while they are on their way.
    func sendAndCancel(_ random: inout SeededGenerator) async {
        let app = Int.random(in: client.apps.indices, using: &random)
        let isScheduled = random.chance(0.6)
        let timing = Client.Timing(notBefore: isScheduled ? moment(after: Double.random(in: 2...8, using: &random)) : nil)
        let id = await post(app, drawAudience(app, &random), timing, isCareful: true, &random)
        guard let id else { return }
        if isScheduled { await pause(Double.random(in: 0...1.5, using: &random)) }
        await client.ask(client.cancellation(id, app: app), &random)
    }

    /// An operator stops a lane of an app for a moment.
    func hold(_ random: inout SeededGenerator) async {
        let app = Int.random(in: client.apps.indices, using: &random)
        let question = client.hold(lane: random.chance(0.5) ? .soon : .bulk, app: app, until: moment(after: 15))
        guard let hold = await client.ask(question, &random).record.hold else { return }
        await pause(Double.random(in: 1.5...4, using: &random))
        await client.ask(client.lifting(hold, app: app), &random)
    }

    /// - Returns: the notification's id, where it was accepted.
    func post(
        _ app: Int, _ audience: Client.Audience, _ timing: Client.Timing, lane: Lane? = nil, isCareful: Bool,
        _ random: inout SeededGenerator
    ) async -> PushID? {
        let marker = mean()
        let question = client.notification(
            app, to: audience, marker: marker, key: isCareful ? key(marker) : nil, timing: timing, lane: lane)
        let record = await client.ask(question, &random).record
        finish(record.status)
        return record.notification
    }

    private func mean() -> Int64 {
        client.tally.change { $0.meant += 1 }
        return client.ledgers.nextMarker()
    }

    private func finish(_ status: Int?) { if status != 202 { client.tally.change { $0.abandoned += 1 } } }

    private func key(_ marker: Int64) -> String { "chaos-\(settings.seed)-\(marker)" }

    /// In microseconds, a whole number of milliseconds.
    func moment(after seconds: Double) -> Int64 { now() / 1000 * 1000 + Int64(seconds * 1000) * 1000 }

    /// The pace of a person, on which no check depends.
    func pause(_ seconds: Double) async { do { try await Task.sleep(for: .seconds(seconds)) } catch { return } }

    /// Some backends choose a slower lane than the target's own, so that something waits in every lane at any time.
    private func drawLane(for audience: Client.Audience, _ random: inout SeededGenerator) -> Lane? {
        let draw = Double.random(in: 0..<1, using: &random)
        return switch audience {
        case .user, .installation: draw < 0.08 ? .bulk : draw < 0.16 ? .soon : nil
        case .users: draw < 0.16 ? .bulk : nil
        case .tags, .all: nil
        }
    }

    private func drawAudience(_ app: Int, _ random: inout SeededGenerator) -> Client.Audience {
        switch Double.random(in: 0..<1, using: &random) {
        case ..<0.8: .user(Self.drawUser(settings, &random))
        case ..<0.95:
            if let device = fleet.glance(&random), device.app == app {
                .installation(device.installation)
            } else {
                .user(Self.drawUser(settings, &random))
            }
        case ..<0.99: .users((0..<Int.random(in: 2...5, using: &random)).map { _ in Self.drawUser(settings, &random) })
        case ..<0.9993: .tags("app:group-\(Int.random(in: 0..<12, using: &random)) AND \(random.chance(0.5) ? "app:even" : "NOT app:even")")
        default: .all
        }
    }
}
