import PushModel
import Testing

@testable import TokenServiceRegistry

@Suite("The rules of a Live Activity's updates")
struct LiveActivityTests {
    private static let hour: Int64 = 3_600_000
    private var activity = {
        var activity = UpdateTarget(
            key: UpdateTarget.Key(app: 1, owner: .user("ada"), id: "ride"), attributesType: "Ride", startedAt: 0)
        activity.reportedAt = 1
        return activity
    }()
    private var superseded: [PushID] = []

    private static func id(_ number: UInt64) -> PushID { PushID(high: 7, low: number) }
    private static let sendable = Set((1...9).map { id($0) })

    private mutating func accept(
        _ number: UInt64, at now: Int64, event: ActivityChange.Event = .update, timestamp: Int64? = nil, priority: Int = 5,
        window: Int64 = 0, maySend: Bool = true
    ) -> UpdateTarget.Admission {
        let change = ActivityChange(subject: .activity("ride"), event: event, timestamp: timestamp ?? now / 1000)
        return activity.accept(
            change, as: Self.id(number), priority: priority, window: window, maySend: maySend, now: now, superseded: &superseded)
    }

    /// `#expect` cannot contain calls that change the activity.
    private func expect(_ isAsExpected: Bool, _ comment: Comment? = nil, at place: SourceLocation = #_sourceLocation) {
        #expect(isAsExpected, comment, sourceLocation: place)
    }

    private static func isWaiting(_ admission: UpdateTarget.Admission) -> Bool {
        if case .turn(let turn) = admission { isWaiting(turn) } else { false }
    }
    private static func isWaiting(_ turn: UpdateQueue.Turn) -> Bool { if case .wait = turn { true } else { false } }

    @Test("One is under way, the newest waits, and those between are superseded") mutating func newestWins() {
        expect(accept(1, at: 1000) == .turn(.send))
        for number in 2...4 as ClosedRange<UInt64> { expect(Self.isWaiting(accept(number, at: 1000 * Int64(number)))) }
        expect(superseded == [Self.id(2), Self.id(3)])
        expect(activity.turn(of: Self.id(3), window: 0, now: 5000) == .outdated)
        expect(Self.isWaiting(activity.turn(of: Self.id(4), window: 0, now: 5000)))
        expect(activity.queue.ended(Self.id(3)) == nil)
        expect(activity.queue.ended(Self.id(1)) == Self.id(4))
        expect(activity.turn(of: Self.id(4), window: 0, now: 5000) == .send)
        activity.begin(Self.id(4), priority: 5, window: 0, now: 5000)
        expect(activity.queue.ended(Self.id(4)) == nil && activity.queue.sending == nil)
        expect(accept(5, at: 6000) == .turn(.send))
        expect(superseded == [Self.id(2), Self.id(3)])
    }

    @Test("A state that is older than the newest is not sent; one of the same second is") mutating func outdated() {
        expect(accept(1, at: 1000, timestamp: 10) == .turn(.send))
        expect(accept(2, at: 2000, timestamp: 9) == .turn(.outdated))
        expect(activity.queue.newest == Self.id(1) && superseded.isEmpty)
        expect(Self.isWaiting(accept(3, at: 3000, timestamp: 10)))
    }

    @Test("Updates wait for the update token, and an end that waits for it is not lost") mutating func starting() {
        activity.reportedAt = nil
        expect(Self.isWaiting(accept(1, at: 1000)))
        expect(Self.isWaiting(accept(2, at: 2000, event: .end)))
        expect(accept(3, at: 3000) == .over)
        expect(superseded == [Self.id(1)] && activity.queue.newest == Self.id(2))
        expect(activity.reported(hasFrequentUpdates: nil, now: 4000))
        expect(activity.turn(of: Self.id(2), window: 0, now: 4000) == .send)
    }

    @Test("After an end only another end counts, and after eight hours nothing but an end") mutating func ends() {
        expect(accept(1, at: 1000, event: .end) == .turn(.send))
        expect(activity.endedAt == 1000)
        expect(accept(2, at: 2000) == .over)
        expect(Self.isWaiting(accept(3, at: 3000, event: .end)))
        activity.endedAt = nil
        expect(accept(4, at: 8 * Self.hour - 1) != .over)
        expect(accept(5, at: 8 * Self.hour) == .over)
    }

    @Test("The end of its channel ends an activity that had started before: neither an update nor its first report brings it back")
    mutating func endedByChannel() {
        activity.reportedAt = nil
        activity.channelEndedAt = -1
        expect(Self.isWaiting(accept(1, at: 1000)))
        activity.channelEndedAt = 1500
        expect(activity.isOver(at: 2000) && accept(2, at: 2000) == .over)
        expect(!activity.reported(hasFrequentUpdates: nil, now: 3000))
        expect(activity.startedAt == 0 && activity.isOver(at: 3000))
        expect(activity.turn(of: Self.id(1), window: 0, now: 3000) == .outdated)
        expect(activity.renew(as: Self.id(9), ofThese: Self.sendable, now: 3000) == nil)
        expect(accept(3, at: 4000, event: .end) == .turn(.send), "of its own sender")
    }

    @Test("The end of a channel is taken back to the one before if APNs accepted nothing of it, also if another end takes its place")
    func endNotSent() {
        var channel = UpdateTarget(key: UpdateTarget.Key(app: 1, owner: .channel, id: "game"))
        var superseded: [PushID] = []
        func begin(_ number: UInt64, at now: Int64) {
            let change = ActivityChange(subject: .channel("game"), event: .end, timestamp: now / 1000)
            _ = channel.accept(
                change, as: Self.id(number), priority: 5, window: 0, maySend: true, now: now, superseded: &superseded)
            channel.begin(Self.id(number), priority: 5, window: 0, now: now)
        }
        begin(1, at: 1000)
        #expect(channel.endedAt == 1000)
        channel.arrived(Self.id(1))
        let afterFirst = channel.completed(Self.id(1))
        #expect(afterFirst == nil && channel.endedAt == 1000)
        begin(2, at: 5000)
        _ = channel.failed(Self.id(2), superseded: &superseded)
        begin(3, at: 9000)
        #expect(superseded == [Self.id(2)] && channel.endedAt == 9000)
        _ = channel.completed(Self.id(2))
        #expect(channel.endedAt == 9000)
        _ = channel.completed(Self.id(3))
        #expect(channel.endedAt == 1000 && channel.queue.sending == nil)
    }

    @Test("Two updates of priority 10 are a window apart; an end and priority 5 wait for none") mutating func window() {
        expect(accept(1, at: 1000, priority: 10, window: 60_000) == .turn(.send))
        _ = activity.queue.ended(Self.id(1))
        expect(accept(2, at: 2000, priority: 10, window: 60_000) == .turn(.wait(until: 61_000)))
        expect(activity.turn(of: Self.id(2), window: 60_000, now: 60_999) == .wait(until: 61_000))
        expect(activity.turn(of: Self.id(2), window: 60_000, now: 61_000) == .send)
        expect(accept(3, at: 3000, event: .end, window: 60_000) == .turn(.send))
        activity.endedAt = nil
        activity.queue.sending = nil
        activity.queue.freeAt = nil
        expect(accept(4, at: 70_000, window: 60_000) == .turn(.send))
        _ = activity.queue.ended(Self.id(4))
        expect(accept(5, at: 71_000, priority: 10, window: 60_000) == .turn(.send), "priority 5 begins no window")
        activity.queue.freeAt = nil
        activity.hasFrequentUpdates = true
        _ = activity.queue.ended(Self.id(5))
        expect(accept(6, at: 72_000, priority: 10, window: 60_000) == .turn(.send))
        _ = activity.queue.ended(Self.id(6))
        expect(accept(7, at: 73_000, priority: 10, window: 60_000) == .turn(.send))
    }

    @Test("An update whose attempt failed gives way to a newer one, which goes after the control stream has its end")
    mutating func retrying() {
        expect(accept(1, at: 1000) == .turn(.send))
        expect(activity.queue.failed(Self.id(1), superseded: &superseded) == nil && activity.queue.isRetrying)
        expect(accept(2, at: 2000) == .turn(.wait(until: 2000)), "by fan-out, after the relay has published the cancellation")
        expect(superseded == [Self.id(1)])
        expect(activity.turn(of: Self.id(2), window: 0, now: 2000) == .send)
        // The other order: the newer one waits when the attempt fails.
        activity.begin(Self.id(2), priority: 5, window: 0, now: 2000)
        expect(Self.isWaiting(accept(3, at: 3000)))
        expect(activity.queue.failed(Self.id(2), superseded: &superseded) == Self.id(3))
        expect(superseded == [Self.id(1), Self.id(2)] && activity.queue.sending == nil)
        expect(activity.queue.ended(Self.id(2)) == nil)
        expect(activity.turn(of: Self.id(3), window: 0, now: 3000) == .send)
    }

    @Test("A device that comes after the newest state gets a copy of it, unless the state still waits or the activity is over")
    mutating func renewal() {
        expect(activity.renew(as: Self.id(9), ofThese: Self.sendable, now: 5) == nil, "there is no state")
        expect(accept(1, at: 1000) == .turn(.send))
        expect(activity.renew(as: Self.id(9), ofThese: [], now: 2000) == nil, "it was cancelled, or has expired")
        expect(activity.renew(as: Self.id(9), ofThese: Self.sendable, now: 2000) == Self.id(1))
        expect(activity.queue.newest == Self.id(9) && Self.isWaiting(activity.turn(of: Self.id(9), window: 0, now: 2000)))
        expect(activity.renew(as: Self.id(8), ofThese: Self.sendable, now: 2000) == nil, "the copy goes to all")
        expect(activity.queue.ended(Self.id(1)) == Self.id(9))
        activity.begin(Self.id(9), priority: 5, window: 0, now: 3000)
        expect(Self.isWaiting(accept(2, at: 4000)))
        expect(superseded.isEmpty && activity.queue.newest == Self.id(2))
        activity.queue.isWaiting = false
        activity.endedAt = 5000
        expect(activity.renew(as: Self.id(7), ofThese: Self.sendable, now: 6000) == nil)
    }

    @Test("An activity lives from its first report on, however long its start was held back", arguments: [7, 9] as [Int64])
    mutating func heldStart(hours: Int64) {
        activity.reportedAt = nil
        let late = hours * Self.hour
        expect(activity.reported(hasFrequentUpdates: nil, now: late))
        expect(activity.startedAt == late && !activity.isOver(at: late + 2 * Self.hour))
        expect(activity.reported(hasFrequentUpdates: nil, now: late + Self.hour))
        expect(activity.startedAt == late)
    }

    @Test("Until a device reports it, an activity takes updates for a day: quiet hours may have held its start back")
    mutating func heldStartsUpdates() {
        activity.reportedAt = nil
        expect(Self.isWaiting(accept(1, at: 9 * Self.hour)))
        expect(accept(2, at: 24 * Self.hour) == .over)
        expect(activity.reported(hasFrequentUpdates: nil, now: 10 * Self.hour))
        expect(activity.turn(of: Self.id(1), window: 0, now: 10 * Self.hour) == .send)
        expect(activity.isOver(at: 18 * Self.hour))
    }

    @Test("A start at a local time may go to the last time zone 26 hours after the first: its activity takes updates for a day from then")
    mutating func localStart() {
        activity.reportedAt = nil
        activity.startsUntil = 26 * Self.hour
        expect(Self.isWaiting(accept(1, at: 25 * Self.hour)))
        expect(!activity.isOver(at: 50 * Self.hour - 1) && activity.isOver(at: 50 * Self.hour))
        expect(activity.reported(hasFrequentUpdates: nil, now: 26 * Self.hour))
        expect(!activity.isOver(at: 34 * Self.hour - 1) && activity.isOver(at: 34 * Self.hour))
    }

    @Test("A device that reports after the end ends the activity there") mutating func reports() {
        expect(activity.reported(hasFrequentUpdates: true, now: 5) && activity.hasFrequentUpdates)
        expect(activity.reportedAt == 1)
        expect(activity.reported(hasFrequentUpdates: nil, now: 5) && activity.hasFrequentUpdates)
        activity.endedAt = 10
        expect(!activity.reported(hasFrequentUpdates: nil, now: 11))
    }

    @Test("The name, the owner and the app make the key, byte by byte") func keys() {
        let keys: [UpdateTarget.Key] = [
            .init(app: 1, owner: .installation(Self.id(1)), id: "ride"), .init(app: 1, owner: .installation(Self.id(2)), id: "ride"),
            .init(app: 1, owner: .user("ada"), id: "rid\u{e9}"), .init(app: 1, owner: .user("ada"), id: "ride"),
            .init(app: 1, owner: .user("ada"), id: "ride\u{301}"), .init(app: 1, owner: .user("ren\u{e9}"), id: "ride"),
            .init(app: 1, owner: .user("rene\u{301}"), id: "ride"), .init(app: 2, owner: .user("ada"), id: "ride"),
        ]
        #expect(Set(keys).count == keys.count)
        let ordered = keys.shuffled().sorted()
        for (left, right) in zip(ordered, ordered.dropFirst()) { #expect(left < right && !(right < left) && left != right) }
    }
}
