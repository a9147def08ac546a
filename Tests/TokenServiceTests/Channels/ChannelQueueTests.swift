import PushModel
import Testing

@testable import TokenServiceRegistry
@testable import TokenServiceSending

extension UpdateTarget {
    /// Accepts a channel's broadcast, which fan-out makes.
    mutating func accept(_ change: ActivityChange, as notification: PushID, now: Int64, superseded: inout [PushID]) -> UpdateQueue.Turn {
        let admission = accept(change, as: notification, priority: 10, window: 0, maySend: true, now: now, superseded: &superseded)
        return if case .turn(let turn) = admission { turn } else { .outdated }
    }

    mutating func begin(_ notification: PushID, now: Int64) { begin(notification, priority: 5, window: 0, now: now) }
    func turn(of notification: PushID, now: Int64) -> UpdateQueue.Turn { turn(of: notification, window: 0, now: now) }
}

@Suite("The rules of a channel's broadcasts")
struct ChannelQueueTests {
    private var channel = UpdateTarget(key: UpdateTarget.Key(app: 1, owner: .channel, id: "game"))
    private var superseded: [PushID] = []

    private static func id(_ number: UInt64) -> PushID { PushID(high: 7, low: number) }

    private mutating func accept(_ number: UInt64, at now: Int64, event: ActivityChange.Event = .update) -> UpdateQueue.Turn {
        let change = ActivityChange(subject: .channel("game"), event: event, timestamp: now / 1000)
        return channel.accept(change, as: Self.id(number), now: now, superseded: &superseded)
    }

    /// `#expect` cannot contain calls that change the channel.
    private func expect(_ isAsExpected: Bool, at place: SourceLocation = #_sourceLocation) {
        #expect(isAsExpected, sourceLocation: place)
    }

    @Test("Broadcasts are a second apart, ends too, and the newest of those that wait is sent") mutating func window() {
        expect(accept(1, at: 10_000) == .wait(until: 10_000))
        channel.begin(Self.id(1), now: 10_000)
        expect(accept(2, at: 10_100) == .wait(until: 10_100 + UpdateQueue.recheck))
        expect(accept(3, at: 10_200, event: .end) == .wait(until: 10_200 + UpdateQueue.recheck))
        expect(superseded == [Self.id(2)])
        expect(channel.queue.ended(Self.id(1)) == Self.id(3))
        expect(channel.turn(of: Self.id(3), now: 10_999) == .wait(until: 11_000))
        expect(channel.turn(of: Self.id(3), now: 11_000) == .send)
    }

    @Test("No update takes the place of an end whose attempt failed; another end does") mutating func endIsRetried() async throws {
        _ = accept(1, at: 10_000, event: .end)
        channel.begin(Self.id(1), now: 10_000)
        _ = accept(2, at: 10_100)
        expect(channel.failed(Self.id(1), superseded: &superseded) == nil && superseded.isEmpty)
        expect(accept(3, at: 10_200) == .wait(until: 10_200 + UpdateQueue.recheck))
        expect(superseded == [Self.id(2)] && channel.queue.sending == Self.id(1))
        expect(channel.queue.ended(Self.id(1)) == Self.id(3))
        channel.begin(Self.id(3), now: 12_000)
        expect(!channel.isSendingEnd && channel.endedAt == 10_000)
        // An update gives way as before.
        _ = accept(4, at: 12_100)
        expect(channel.failed(Self.id(3), superseded: &superseded) == Self.id(4))

        _ = accept(5, at: 13_000, event: .end)
        channel.begin(Self.id(5), now: 13_000)
        _ = channel.failed(Self.id(5), superseded: &superseded)
        _ = accept(6, at: 13_100, event: .end)
        expect(superseded.contains(Self.id(5)) && channel.queue.sending == nil)
    }

    @Test("No update takes the place of an end that waits; after the end updates go again") mutating func end() {
        _ = accept(1, at: 10_000)
        channel.begin(Self.id(1), now: 10_000)
        _ = accept(2, at: 10_100, event: .end)
        expect(accept(3, at: 10_200) == .outdated && superseded.isEmpty)
        _ = accept(4, at: 10_300, event: .end)
        expect(superseded == [Self.id(2)])
        _ = channel.queue.ended(Self.id(1))
        expect(channel.endedAt == nil)
        channel.begin(Self.id(4), now: 11_000)
        expect(channel.endedAt == 11_000)
        expect(accept(5, at: 11_100) == .wait(until: 11_100 + UpdateQueue.recheck))
        expect(superseded == [Self.id(2)])
    }
}
