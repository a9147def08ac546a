import PushModel
import Testing

@testable import TokenServiceSending

@Suite("The states of a broadcast channel, and what a scope does next")
struct BroadcastChannelTests {
    private static let now: Int64 = 1_000_000
    private static let id = ChannelID("AAAA")

    private static func channel(_ state: BroadcastChannel.State) -> BroadcastChannel {
        BroadcastChannel(
            id: 1, environment: .production, name: state == .foreign ? nil : "game-1",
            appleID: state == .creating || state == .failed ? nil : id, storage: state == .foreign ? nil : ChannelStorage.none,
            state: state,
            creation: nil, reason: nil, dueAt: state == .creating || state == .deleting ? now : nil, createdAt: 1, changedAt: 1)
    }

    private static func uncertain(_ state: BroadcastChannel.State = .creating) -> BroadcastChannel {
        var channel = channel(state)
        channel.appleID = nil
        channel.creation = PushID(high: 1, low: 1)
        return channel
    }

    private static let refusals: [ChannelRefusal] = [
        ChannelRefusal(status: 400, reason: "FeatureNotEnabled"), ChannelRefusal(status: 429, reason: "TooManyRequests"),
        ChannelRefusal(status: 500, reason: "InternalServerError"),
    ]

    private static func events() throws -> [BroadcastChannel.Event] {
        [
            .adopted("game-2"), .unwanted, .asked(PushID(high: 2, low: 2)), .created(try #require(ChannelID("BBBB"))), .notCreated,
            .described(.latest), .absent, .delayed("unanswered", until: 5_000_000), .listed(true), .listed(false),
        ] + refusals.map { .refused($0, retryAt: 5_000_000) }
    }

    /// The constraints of the table.
    private static func isSound(_ channel: BroadcastChannel) -> Bool {
        (channel.name != nil || [.foreign, .deleting].contains(channel.state))
            && (![.open, .lost].contains(channel.state) || channel.appleID != nil && channel.storage != nil)
            && ([.creating, .deleting].contains(channel.state) ? channel.dueAt != nil : channel.dueAt == nil && channel.creation == nil)
            && (channel.state != .failed || channel.appleID == nil)
    }

    @Test("No sequence of three events leaves a row that the table refuses") func soundRows() throws {
        let starts = BroadcastChannel.State.allCases.map(Self.channel) + [Self.uncertain(), Self.uncertain(.deleting)]
        var (reached, seen): ([BroadcastChannel], Set<String>) = (starts, [])
        for _ in 0..<3 {
            var next: [BroadcastChannel] = []
            for channel in reached {
                for event in try Self.events() {
                    // The registry does not apply these to a channel of this kind.
                    if case .described = event, channel.creation != nil || channel.appleID == nil { continue }
                    if case .created = event, channel.creation == nil { continue }
                    if case .asked = event, channel.appleID != nil { continue }
                    var changed = channel
                    guard changed.apply(event, now: Self.now) else { continue }
                    #expect(Self.isSound(changed), "\(channel) after \(event) is \(changed)")
                    if seen.insert("\(changed)").inserted { next.append(changed) }
                }
            }
            reached = next
        }
    }

    @Test("A row goes only when Apple has no channel for it") func removal() throws {
        func stays(_ channel: BroadcastChannel, _ event: BroadcastChannel.Event) -> Bool {
            var channel = channel
            return channel.apply(event, now: Self.now)
        }
        for event in try Self.events() where event != .absent { #expect(stays(Self.channel(.deleting), event) || event == .notCreated) }
        #expect(!stays(Self.channel(.deleting), .absent))
        #expect(stays(Self.uncertain(), .unwanted) && !stays(Self.channel(.creating), .unwanted))
        #expect(!stays(Self.uncertain(.deleting), .refused(Self.refusals[0], retryAt: 1)))
        #expect(stays(Self.uncertain(.deleting), .refused(Self.refusals[2], retryAt: 1)))
        #expect(!stays(Self.uncertain(.deleting), .notCreated))
        #expect(stays(Self.channel(.open), .listed(false)) && stays(Self.channel(.lost), .listed(false)))
    }

    @Test("A scope does one thing at a time, and nothing that could hide what Apple did") func steps() throws {
        let id = try #require(Self.id)
        var plan = ChannelPlan(app: 1, environment: .production, listFrom: 0)
        var waiting = ChannelPlan.Waiting(create: Self.channel(.creating))
        #expect(plan.next(waiting, now: Self.now) == .list)
        plan.listFrom = Self.now + 10
        #expect(plan.next(waiting, now: Self.now) == .wait(until: Self.now + 10), "the first create waits for the first list")
        plan.listedAt = 1
        #expect(plan.next(waiting, now: Self.now) == .create(Self.channel(.creating), ChannelStorage.none))
        plan.command = ChannelPlan.UnderWay(id: .random(), operation: .create, channel: 1, endsAt: Self.now + 5)
        #expect(plan.next(waiting, now: Self.now) == .wait(until: Self.now + 5))

        // The answer to a create is missing.
        plan.command = nil
        plan.listFrom = 0
        var uncertain = Self.uncertain()
        uncertain.dueAt = Self.now + 7
        waiting.uncertain = uncertain
        #expect(plan.next(waiting, now: Self.now) == .wait(until: Self.now + 7), "no list while Apple may still be at work, no create")
        waiting.other = Self.channel(.deleting)
        #expect(plan.next(waiting, now: Self.now) == .delete(Self.channel(.deleting), id))
        #expect(plan.next(waiting, now: Self.now + 7) == .list)
        plan.candidates = ["AAAA", "BBBB"]
        var found = Self.channel(.foreign)
        waiting.candidates = [found]
        #expect(plan.next(waiting, now: Self.now + 7) == .read(found, id))
        found.storage = ChannelStorage.none
        waiting.candidates = [found]
        #expect(plan.next(waiting, now: Self.now + 7) == .resolve(uncertain, as: found))
        found.storage = .latest
        waiting.candidates = [found]
        #expect(plan.next(waiting, now: Self.now + 7) == .resolve(uncertain, as: nil))
    }
}
