import ChaosLedger
import PushAPI
import PushModel
import StrictJSON

/// The requests about Live Activities.
extension Client {
    /// A Live Activity as its backend knows it.
    struct Ride: Sendable {
        let app: Int
        let user: String
        let id: String
    }

    /// One state of a Live Activity. The marker is in the content state too, so that a lock screen shows whose state it has.
    struct RideState: Sendable {
        let event: ClientRecord.ActivityEvent
        let marker: Int64
        /// UNIX seconds.
        let timestamp: Int64
        /// UNIX microseconds.
        let expiresAt: Int64
        var priority: Int64 = 5
        /// UNIX seconds.
        var dismissalDate: Int64?
    }

    func send(_ state: RideState, of ride: Ride, key: String) -> Question {
        let body = JSONWriter.object { object in
            object.object("to") { to in
                to.field("user", ride.user)
                if state.event != .start { to.field("activity", ride.id) }
            }
            if state.event == .start { object.field("activity", ride.id) }
            object.object("payload") { payload in
                payload.object("aps") { write(state, of: ride, to: &$0) }
                payload.field("marker", state.marker)
            }
            object.field("receipts", "all")
            object.field("priority", state.priority)
            object.field("expires_at", rfc3339(state.expiresAt))
        }
        var question = question(.send, ride.app, .post, "notifications", body: body)
        question.record.key = key
        question.record.marker = state.marker
        question.record.expiresAt = state.expiresAt
        question.record.target = state.event == .start ? .user : .activity
        question.record.user = ride.user
        question.record.activity = ride.id
        question.record.event = state.event
        question.record.timestamp = state.timestamp
        return question
    }

    private func write(_ state: RideState, of ride: Ride, to aps: inout JSONWriter) {
        aps.field("event", state.event.rawValue)
        aps.field("timestamp", state.timestamp)
        aps.object("content-state") { $0.field("marker", state.marker) }
        aps.field("dismissal-date", state.dismissalDate)
        guard state.event == .start else { return }
        aps.field("attributes-type", ChaosApp.attributesType)
        aps.object("attributes") { $0.field("id", ride.id) }
        aps.field("alert", "Chaos")
    }

    /// The app has got an update token.
    func report(_ token: DeviceToken, of activity: String, on device: Device) -> Question {
        let environment = apps[device.app].environment
        let body = JSONWriter.object { object in
            object.field("token", token.hex)
            object.field("environment", environment)
        }
        var question = question(.report, device.app, .put, "installations/\(device.installation)/activities/\(activity)", body: body)
        question.record.installation = device.installation
        question.record.tokens = [token]
        question.record.activity = activity
        return question
    }

    /// The person has dismissed it.
    func dismissal(of activity: String, on device: Device) -> Question {
        var question = question(.dismiss, device.app, .delete, "installations/\(device.installation)/activities/\(activity)")
        question.record.installation = device.installation
        question.record.activity = activity
        return question
    }
}
