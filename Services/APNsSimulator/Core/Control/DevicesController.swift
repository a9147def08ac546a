import HTTPTypes
import Hummingbird
import StrictJSON

/// Devices and what they show.
struct DevicesController {
    private enum State: String, CaseIterable {
        case installed, uninstalled
    }

    let simulator: APNsSimulator

    func list() -> Response {
        let devices = simulator.devices()
        return ControlAnswer.json { writer in
            writer.object { object in
                object.array("devices") { array in
                    for device in devices { Self.write(device, to: &array) }
                }
            }
        }
    }

    func put(_ request: ControlRequest) async throws -> Response {
        let token = try request.token()
        let now = simulator.configuration.clock()
        let installation = try await request.body { reader -> TokenRecord.Installation? in
            let environment = reader.choice("environment", of: SimulatorEnvironment.self)
            let topics = reader.optionalStrings("topics", maximumCount: 100, maximumBytes: 255)
            let state = reader.optionalChoice("state", of: State.self) ?? .installed
            let since = reader.optionalInteger("uninstalled_at_ms", in: 0...Self.latestMoment)
            let name = reader.optionalString("name", maximumBytes: 200)
            guard let environment else { return nil }
            return TokenRecord.Installation(
                environment: environment, topics: topics?.map { Array($0.utf8) },
                state: state == .installed ? .installed : .uninstalled(since: since ?? now), name: name)
        }
        let wasKnown = simulator.world.put(installation, for: token)
        return try read(token, status: wasKnown ? .ok : .created)
    }

    func read(_ token: TokenKey, status: HTTPResponse.Status = .ok) throws -> Response {
        guard let device = simulator.world.device(token) else { throw ControlProblem.unknownDevice }
        return ControlAnswer.json(status) { Self.write(device, to: &$0) }
    }

    func remove(_ token: TokenKey) -> Response {
        _ = simulator.world.remove(token)
        return ControlAnswer.noContent
    }

    /// With `wait_count`: answers when the inbox holds so many, or when `timeout_seconds` have passed.
    func inbox(_ request: ControlRequest) async throws -> Response {
        try request.allowQuery("wait_count", "timeout_seconds")
        let token = try request.token()
        let wait = try request.wait()
        guard simulator.world.inbox(of: token) != nil else { throw ControlProblem.unknownDevice }
        if let wait { _ = await simulator.world.wait(for: .inbox(token, count: Int(wait.count)), timeout: wait.timeout) }
        let notifications = simulator.world.inbox(of: token) ?? []
        return ControlAnswer.json { writer in
            writer.object { object in
                object.field("token", token.hex)
                object.field("count", notifications.count)
                object.array("notifications") { array in
                    for notification in notifications { Self.write(notification, to: &array) }
                }
            }
        }
    }

    /// The year 10000.
    private static let latestMoment: Int64 = 253_402_300_799_999

    private static func write(_ summary: DeviceSummary, to writer: inout JSONWriter) {
        writer.object { object in
            object.field("token", summary.device.token)
            object.field("environment", summary.device.environment.rawValue)
            if let topics = summary.device.topics { object.field("topics", topics) }
            switch summary.device.state {
            case .installed: object.field("state", "installed")
            case .uninstalled(let since):
                object.field("state", "uninstalled")
                object.field("uninstalled_at_ms", since)
            }
            object.field("name", summary.device.name)
            object.field("badge", summary.badge)
            object.field("accepted", summary.acceptedCount)
            object.field("inbox", summary.inboxCount)
            object.field("script_remaining", summary.scriptRemaining)
        }
    }

    private static func write(_ notification: InboxNotification, to writer: inout JSONWriter) {
        writer.object { object in
            object.field("title", notification.content.title)
            object.field("subtitle", notification.content.subtitle)
            object.field("body", notification.content.body)
            object.field("badge", notification.content.badge)
            object.field("sound", notification.content.sound)
            object.field("category", notification.content.category)
            object.field("thread_id", notification.content.threadID)
            object.field("received_at", rfc3339(notification.receivedAt))
            object.field("apns_id", notification.apnsID)
            object.field("push_type", notification.pushType)
            object.field("collapse_id", notification.collapseID)
            object.field("topic", notification.topic)
        }
    }
}
