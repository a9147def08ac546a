import ChaosChecking
import ChaosLedger
import PushModel

/// Live Activities of a story.
extension Story {
    private static let activityTopic = "com.example.shop.push-type.liveactivity"

    static func startToken(_ device: Int) -> DeviceToken { DeviceToken(bytes: [0xa1, 1, UInt8(device)])! }
    static func updateToken(_ device: Int) -> DeviceToken { DeviceToken(bytes: [0x77, 1, UInt8(device)])! }

    /// Cleo has device 5 with her activity `ride` since 10.2 s, and shows its start, marker 50, timestamp 100.
    static var riding: Story {
        var story = Story.ordinary
        story.registerPhone("cleo", at: 9000)
        story.change(50, .start, 100, at: 10_000)
        story.activityPush(50, at: 10_050, token: startToken(5))
        story.report(50, [(5, .accepted)])
        story.reportToken(at: 10_100)
        return story
    }

    mutating func registerPhone(_ user: String?, at sent: Int64) {
        ask(.register, at: sent) { record in
            record.user = user
            record.installation = Self.installation(5)
            record.tokens = [Self.token(5)]
            record.startTokens = [Self.startToken(5)]
        }
    }

    mutating func reportToken(at sent: Int64, status: Int? = 200) {
        ask(.report, at: sent, status: status) { record in
            record.installation = Self.installation(5)
            record.tokens = [Self.updateToken(5)]
            record.activity = "ride"
        }
    }

    /// A start, an update or an end that cleo's backend asks for.
    @discardableResult
    mutating func change(
        _ marker: Int64, _ event: ClientRecord.ActivityEvent, _ timestamp: Int64, at sent: Int64, status: Int? = 202,
        expiresAt: Int64? = nil
    ) -> Int64 {
        send(marker, to: "cleo", at: sent, status: status) { record in
            record.target = event == .start ? .user : .activity
            (record.activity, record.event, record.timestamp) = ("ride", event, timestamp)
            record.expiresAt = expiresAt.map(Self.moment)
        }
    }

    /// - Parameter marker: nil for an end that the platform makes by itself.
    mutating func activityPush(_ marker: Int64?, at time: Int64, token: DeviceToken = updateToken(5), fate: Push.Fate = .accepted) {
        pushList.append(
            Push(
                time: Self.moment(time), token: token, id: Self.delivery(marker ?? 9999, 5), topic: Self.activityTopic, marker: marker,
                fate: fate))
    }

    /// An update or an end that was accepted, pushed and reported.
    mutating func delivered(_ marker: Int64, _ event: ClientRecord.ActivityEvent, _ timestamp: Int64, at sent: Int64, pushedAt: Int64) {
        change(marker, event, timestamp, at: sent)
        activityPush(marker, at: pushedAt)
        report(marker, [(5, .accepted)])
    }

    mutating func shows(_ marker: Int64?, _ state: ShownRecord.State = .active, isSwiped: Bool = false) {
        shownList.append(
            ShownRecord(
                app: "shop", installation: Self.installation(5), activity: "ride", state: state, marker: marker, isSwiped: isSwiped))
    }
}
