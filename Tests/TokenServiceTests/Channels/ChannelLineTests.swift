import PushModel
import Testing

@testable import TokenService

@Suite("The rules of a channel's broadcasts")
struct ChannelLineTests {
    private var channel = ChannelLine(key: ChannelLine.Key(app: 1, name: "game"), channel: 7)
    private var superseded: [PushID] = []

    private static func id(_ number: UInt64) -> PushID { PushID(high: 7, low: number) }

    private mutating func accept(_ number: UInt64, at now: Int64, event: ActivityChange.Event = .update) -> UpdateLine.Turn {
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
        expect(accept(2, at: 10_100) == .wait(until: 10_100 + UpdateLine.recheck))
        expect(accept(3, at: 10_200, event: .end) == .wait(until: 10_200 + UpdateLine.recheck))
        expect(superseded == [Self.id(2)])
        expect(channel.line.settled(Self.id(1)) == Self.id(3))
        expect(channel.turn(of: Self.id(3), now: 10_999) == .wait(until: 11_000))
        expect(channel.turn(of: Self.id(3), now: 11_000) == .send)
    }

    @Test("No update takes the place of an end that waits; after the end updates go again") mutating func end() {
        _ = accept(1, at: 10_000)
        channel.begin(Self.id(1), now: 10_000)
        _ = accept(2, at: 10_100, event: .end)
        expect(accept(3, at: 10_200) == .outdated && superseded.isEmpty)
        _ = accept(4, at: 10_300, event: .end)
        expect(superseded == [Self.id(2)])
        _ = channel.line.settled(Self.id(1))
        expect(channel.endedAt == nil)
        channel.begin(Self.id(4), now: 11_000)
        expect(channel.endedAt == 11_000)
        expect(accept(5, at: 11_100) == .wait(until: 11_100 + UpdateLine.recheck))
        expect(superseded == [Self.id(2)])
    }
}
