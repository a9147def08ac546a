import Foundation
import Hummingbird
import StrictJSON

/// The Live Activities of a device.
struct ActivitiesControl {
    private static let suffix = ServerPushType.liveactivity.topicSuffix

    let simulator: APNsSimulator

    /// Lists the device's activities. With `wait_changes`, it answers when they have changed that often, or when `timeout_seconds` have
    /// passed.
    func list(_ request: ControlRequest) async throws -> Response {
        let token = try request.token()
        if let count = try request.number("wait_changes", in: 0...10_000_000), simulator.world.device(token) != nil {
            let timeout = try request.number("timeout_seconds", in: 0...600) ?? 30
            _ = await simulator.world.wait(for: .activityChanges(token, count: count), timeout: .seconds(timeout))
        }
        guard let found = simulator.world.activities(of: token, now: simulator.configuration.clock()) else {
            throw ControlProblem.unknownDevice
        }
        return ControlAnswer.json { writer in
            writer.object { object in
                object.field("token", token.hex)
                object.field("changes", found.changes)
                object.array("activities") { array in
                    for activity in found.activities { array.object { Self.writeFields(activity, to: &$0) } }
                }
            }
        }
    }

    /// The app on the device starts one.
    func start(_ request: ControlRequest) async throws -> Response {
        let token = try request.token()
        let local = try await request.body { Self.read(&$0) }
        return try answer(simulator.world.start(local, on: token, now: simulator.configuration.clock()), token, status: .created)
    }

    /// - `new_token`: if absent, one is made.
    func rotate(_ request: ControlRequest) async throws -> Response {
        let (token, id) = (try request.token(), try Self.id(request))
        let new = try await request.body { reader -> TokenKey?? in
            guard let text = reader.optionalString("new_token", maximumBytes: 2 * TokenKey.maximumBytes) else { return .some(nil) }
            if let new = TokenKey(hex: text) { return .some(new) }
            reader.problem("new_token", "unsupported_value", "not an even number of hex digits")
            return nil
        }
        return try answer(simulator.world.rotateActivity(id, on: token, to: new, now: simulator.configuration.clock()), token)
    }

    /// The person dismisses one.
    func dismiss(_ request: ControlRequest) throws -> Response {
        let (token, id) = (try request.token(), try Self.id(request))
        return try answer(simulator.world.dismissActivity(id, on: token, now: simulator.configuration.clock()), token)
    }

    private static func id(_ request: ControlRequest) throws -> String {
        let text = try request.context.parameters.require("activity")
        return text.removingPercentEncoding ?? text
    }

    private static func read(_ reader: inout JSONObjectReader) -> World.LocalStart? {
        let id = reader.optionalString("id", maximumBytes: ActivityState.maximumIDBytes)
        if let id, !ActivityState.isID(id) { reader.problem("id", "unsupported_value", "control characters") }
        let bundleID = reader.optionalString("bundle_id", maximumBytes: 200)
        let type = reader.string("attributes_type", maximumBytes: 200)
        let attributes = object("attributes", &reader)
        let state = object("content_state", &reader)
        let channel = reader.optionalString("channel_id", maximumBytes: 200)
        let hasPush = reader.optionalBool("push") ?? true
        if channel != nil, !hasPush { reader.problem("push", "unsupported_value", "an activity that follows a channel gets pushes") }
        guard let type else { return nil }
        return World.LocalStart(
            id: id, topic: bundleID.map { Array(($0 + suffix).utf8) } ?? [], attributesType: type, attributes: attributes ?? "{}",
            contentState: state, updates: channel.map { .channel($0) } ?? (hasPush ? .token : .none))
    }

    private static func object(_ key: String, _ reader: inout JSONObjectReader) -> String? {
        guard let value = reader.optionalValue(key) else { return nil }
        guard value.objectValue != nil else {
            reader.problem(key, "wrong_type", "expected an object")
            return nil
        }
        var writer = JSONWriter()
        writer.value(value)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private func answer(_ change: World.ActivityChange, _ token: TokenKey, status: HTTPResponse.Status = .ok) throws -> Response {
        switch change {
        case .done(let id):
            let found = simulator.world.activities(of: token, now: simulator.configuration.clock())
            guard let activity = found?.activities.last(where: { $0.id == id }) else { throw Self.unknown }
            return ControlAnswer.json(status) { writer in writer.object { Self.writeFields(activity, to: &$0) } }
        case .unknownDevice: throw ControlProblem.unknownDevice
        case .unknownActivity: throw Self.unknown
        case .unknownChannel:
            throw ControlProblem(.notFound, "unknown_channel", "Unknown channel", "not registered in the device's environment")
        case .noApp: throw ControlProblem(.conflict, "no_app", "The app is not installed", "reinstall the app first")
        case .taken: throw ControlProblem(.conflict, "taken", "The id or token is taken", "choose another one, or leave it out")
        case .noToken:
            throw ControlProblem(.conflict, "no_update_token", "No update token", "the activity is over, or no token of its own reaches it")
        }
    }

    private static let unknown = ControlProblem(
        .notFound, "unknown_activity", "No such activity", "GET /v1/devices/{token}/activities lists those there are")

    static func writeFields(_ activity: ActivitySummary, to object: inout JSONWriter) {
        object.field("id", activity.id)
        object.field("attributes_type", activity.attributesType)
        if let attributes = activity.attributes { object.field("attributes", raw: Array(attributes.utf8)) }
        if let state = activity.contentState { object.field("content_state", raw: Array(state.utf8)) }
        object.field("event", activity.event.rawValue)
        object.field("timestamp", activity.timestamp)
        object.field("state", activity.state.rawValue)
        object.field("update_token", activity.updateToken)
        object.field("channel_id", activity.channelID)
        if !activity.topic.isEmpty { object.field("topic", activity.topic) }
        object.field("started_at", rfc3339(activity.startedAt))
        object.field("updated_at", rfc3339(activity.updatedAt))
        object.field("stale_at", activity.staleAt.map { rfc3339($0) })
        object.field("ends_at", rfc3339(activity.endsAt))
        object.field("leaves_at", rfc3339(activity.leavesAt))
        object.field("budget_left", activity.budgetLeft)
    }
}

/// A moment as RFC 3339 writes it, in UTC with milliseconds: `2026-11-21T08:09:10.123Z`.
/// - Parameter milliseconds: UNIX time; a moment outside the years 1970 to 9999 is their first or last one.
func rfc3339(_ milliseconds: Int64) -> String {
    let milliseconds = min(max(0, milliseconds), 253_402_300_799_999)
    let (seconds, fraction) = milliseconds.quotientAndRemainder(dividingBy: 1000)
    let (days, time) = seconds.quotientAndRemainder(dividingBy: 86_400)
    // Days to a date of the Gregorian calendar: eras of 400 years that begin in March, so that the leap day is a year's last.
    let shifted = days + 719_468
    let era = shifted / 146_097
    let dayOfEra = shifted % 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    func padded(_ number: Int64, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    return "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))T\(padded(time / 3600, 2)):\(padded(time / 60 % 60, 2)):"
        + "\(padded(time % 60, 2)).\(padded(fraction, 3))Z"
}
