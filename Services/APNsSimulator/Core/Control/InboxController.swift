import Hummingbird
import StrictJSON
import Synchronization

/// The notifications that devices show, and the events of their arrival.
struct InboxControl {
    let simulator: APNsSimulator

    /// Shows the inbox. With `wait_count`, it answers when the inbox holds that many, or when `timeout_seconds` have passed.
    func read(_ request: ControlRequest) async throws -> Response {
        let token = try request.token()
        let wait = try request.wait()
        let clock = simulator.configuration.clock
        guard simulator.world.inbox(of: token, now: clock()) != nil else { throw ControlProblem.unknownDevice }
        if let wait { _ = await simulator.world.wait(for: .inbox(token, count: Int(wait.count)), timeout: wait.timeout) }
        let notifications = simulator.world.inbox(of: token, now: clock()) ?? []
        let badge = simulator.world.device(token)?.badge
        return ControlAnswer.json { writer in
            writer.object { object in
                object.field("token", token.hex)
                object.field("badge", badge)
                object.field("count", notifications.count)
                // As a lock screen stacks them.
                object.array("groups") { array in
                    for group in NotificationGroup.groups(of: notifications) { array.object { Self.writeFields(group, to: &$0) } }
                }
                object.array("notifications") { array in
                    for notification in notifications { array.object { Self.writeFields(notification, to: &$0) } }
                }
            }
        }
    }

    /// The events of arrivals at installed devices: the result of each accepted push, and changes of the devices themselves.
    func arrivals(_ request: ControlRequest) async throws -> Response {
        let after = try request.number("after", in: 0...(.max / 2)) ?? 0
        let limit = try request.number("limit", in: 1...10_000) ?? 1000
        if let wait = try request.wait() {
            _ = await simulator.world.wait(for: .arrivals(total: after + wait.count), timeout: wait.timeout)
        }
        let (found, last) = simulator.world.state.withLock { state in
            let entries = state.arrivals.arrivals(after: after, limit: Int(limit))
            return (
                entries.map { ($0.sequence, $0.arrival, state.records[$0.arrival.token]?.installation?.name) },
                state.arrivals.nextSequence - 1
            )
        }
        return ControlAnswer.json { writer in
            writer.object { object in
                object.field("last_sequence", last)
                object.array("arrivals") { array in
                    for (sequence, arrival, name) in found { Self.write(sequence, arrival, name: name, to: &array) }
                }
            }
        }
    }

    static func writeFields(_ group: NotificationGroup, to object: inout JSONWriter) {
        object.field("topic", group.newest.topic)
        object.field("thread_id", group.newest.content.threadID)
        object.field("count", group.count)
        object.field("newest_apns_id", group.newest.apnsID)
    }

    static func writeFields(_ notification: InboxNotification, to object: inout JSONWriter) {
        writeContent(notification.content, to: &object)
        object.field("received_at", rfc3339(notification.receivedAt))
        object.field("expires_at", notification.expiresAt.map { rfc3339($0) })
        object.field("apns_id", notification.apnsID)
        object.field("push_type", notification.pushType)
        object.field("collapse_id", notification.collapseID)
        object.field("channel_id", notification.channelID)
        object.field("activity_id", notification.activityID)
        object.field("topic", notification.topic)
    }

    private static func writeContent(_ content: DeviceContent, to object: inout JSONWriter) {
        object.field("title", content.title)
        object.field("subtitle", content.subtitle)
        object.field("body", content.body)
        object.field("badge", content.badge)
        object.field("sound", content.sound)
        object.field("category", content.category)
        object.field("thread_id", content.threadID)
        object.field("interruption_level", content.interruptionLevel)
        if let custom = content.custom { object.field("custom", raw: custom) }
        if let activity = content.activity {
            object.object("activity") { entry in
                entry.field("event", activity.event.rawValue)
                entry.field("content_state", activity.contentState)
                entry.field("stale_at", activity.staleDate.map { rfc3339(unixMilliseconds($0)) })
            }
        }
    }

    private static func write(_ sequence: Int64, _ arrival: Arrival, name: String?, to writer: inout JSONWriter) {
        writer.object { object in
            object.field("sequence", sequence)
            object.field("time", rfc3339(arrival.time))
            object.field("kind", arrival.reception.rawValue)
            object.field("token", arrival.token.hex)
            object.field("name", name)
            object.field("activity_result", arrival.activity?.rawValue)
            object.field("activity_id", arrival.activityID)
            guard arrival.reception != .device else { return }
            object.field("topic", String(decoding: arrival.topic, as: UTF8.self))
            object.field("push_type", arrival.type?.name)
            object.field("apns_id", arrival.id.map { String(decoding: $0.text, as: UTF8.self) })
            if let content = arrival.content?.content { writeContent(content, to: &object) }
        }
    }
}
