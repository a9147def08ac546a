import ChaosLedger
import PushAPI
import PushModel
import StrictJSON
import TestSupport

/// A phone of the simulated Apple with an app that shows Live Activities, and the person who holds it. It does one thing after the other.
actor Phone {
    let app: Int
    let installation: PushID
    private let client: Client
    /// Of whom one at a time is signed in. The person of a phone with one user never signs out.
    private let users: [String]
    private var device: Device
    /// Update tokens that a token service has taken, or has refused for good.
    private var reported: Set<DeviceToken> = []
    /// The simulator's names of the activities that the person has dismissed.
    private var swiped: Set<String> = []
    private var changes: Int64 = 0

    init(_ device: Device, users: [String], client: Client) {
        (self.device, self.users, self.client) = (device, users, client)
        (app, installation) = (device.app, device.installation)
    }

    var user: String? { device.user }

    func prepare(_ random: inout SeededGenerator) async throws {
        let environment = client.apps[app].environment
        let start = device.startToken
        let body = JSONWriter.object { object in
            object.field("environment", environment)
            object.array("start_tokens") { list in
                list.object { token in
                    token.field("attributes_type", ChaosApp.attributesType)
                    token.field("token", start?.hex)
                }
            }
        }
        let made = await askSimulator(.put, "", body)
        let record = await client.ask(client.registration(device), &random).record
        guard made != nil, record.status == 200 || record.status == 201 else {
            throw ChaosError("a phone could not be registered before anything was broken: \(record.status ?? 0)")
        }
    }

    /// - Parameter acts: Whether the person does something now and then.
    func live(_ random: SeededGenerator, acts: @Sendable () -> Bool) async {
        var random = random
        while !Task.isCancelled {
            await reportTokens(&random)
            if acts(), random.chance(0.1) { await act(&random) }
        }
    }

    // MARK: The app

    private struct Activity {
        /// The simulator's; a second one of the same attributes has another name.
        let name: String
        /// The backend's.
        let id: String
        let state: ShownRecord.State
        let token: DeviceToken?
        let marker: Int64?

        init?(_ value: JSONValue) {
            guard let name = value["id"]?.stringValue, let id = value["attributes"]?["id"]?.stringValue,
                let state = value["state"]?.stringValue.flatMap({ ShownRecord.State(rawValue: $0) })
            else { return nil }
            (self.name, self.id, self.state) = (name, id, state)
            token = value["update_token"]?.stringValue.flatMap { DeviceToken(hex: $0) }
            marker = value["content_state"]?["marker"]?.integerValue
        }

        var isRunning: Bool { state == .active || state == .stale }
        /// A start that reached the phone twice.
        var isCopy: Bool { name != id }
    }

    /// - Parameter waiting: For a change, a second at most.
    private func activities(waiting: Bool = false) async -> [Activity]? {
        let query = waiting ? "?wait_changes=\(changes + 1)&timeout_seconds=1" : ""
        guard let answer = await askSimulator(.get, "/activities" + query) else { return nil }
        changes = answer["changes"]?.integerValue ?? changes
        return (answer["activities"]?.arrayValue ?? []).compactMap { Activity($0) }
    }

    /// A phone may be slow to give the app its token. Then it comes with the next look.
    private func reportTokens(_ random: inout SeededGenerator) async {
        for activity in await activities(waiting: true) ?? [] where activity.isRunning {
            if activity.isCopy {
                _ = await dismiss(activity)
            } else if let token = activity.token, !reported.contains(token), !random.chance(0.15) {
                let record = await client.ask(client.report(token, of: activity.id, on: device), &random).record
                if let status = record.status, status < 500, status != 429 { reported.insert(token) }
            }
        }
    }

    var hasReportedAll: Bool {
        get async {
            guard let activities = await activities() else { return false }
            return activities.allSatisfy { activity in
                !activity.isRunning || !activity.isCopy && activity.token.map { reported.contains($0) } ?? true
            }
        }
    }

    // MARK: The person

    private func act(_ random: inout SeededGenerator) async {
        let isSteady = users.count == 1
        switch Double.random(in: isSteady ? 0.6..<1 : 0..<1, using: &random) {
        case ..<0.25: await signIn(&random)
        case ..<0.5:
            await client.ask(random.chance(0.7) ? client.logout(device) : client.logoutByToken(device), &random)
            device.user = nil
            if random.chance(0.8) { await signIn(&random) }
        case ..<0.6:
            guard let user = users.randomElement(using: &random) else { return }
            await client.ask(client.logoutEverywhere(user, app: app), &random)
        case ..<0.75: await client.ask(client.registration(device), &random)
        case ..<0.92:
            guard let activity = await running(&random) else { return }
            _ = await askSimulator(.post, "/activities/\(activity.name)/rotate", Array("{}".utf8))
        default:
            guard let activity = await running(&random), await dismiss(activity) else { return }
            await client.ask(client.dismissal(of: activity.id, on: device), &random)
        }
    }

    private func signIn(_ random: inout SeededGenerator) async {
        device.user = users.randomElement(using: &random)
        await client.ask(client.registration(device), &random)
    }

    private func running(_ random: inout SeededGenerator) async -> Activity? {
        await activities()?.filter(\.isRunning).randomElement(using: &random)
    }

    private func dismiss(_ activity: Activity) async -> Bool {
        guard await askSimulator(.delete, "/activities/\(activity.name)") != nil else { return false }
        swiped.insert(activity.name)
        return true
    }

    // MARK: Reading

    /// The lock screen at the end.
    func shown() async throws -> [ShownRecord] {
        guard let activities = await activities() else { throw ChaosError("the simulator does not show a lock screen") }
        return activities.filter { !$0.isCopy }.map { activity in
            ShownRecord(
                app: client.apps[app].slug, installation: installation, activity: activity.id, state: activity.state,
                marker: activity.marker, isSwiped: swiped.contains(activity.name))
        }
    }

    /// - Returns: nil if it was refused.
    private func askSimulator(_ method: PushAPI.Method, _ path: String, _ body: [UInt8]? = nil) async -> JSONValue? {
        let call = PushAPI.Call(method, "/v1/devices/\(device.token.hex)\(path)", json: body)
        guard let answer = await client.caller.ask(call, at: client.simulatorURL), (200..<300).contains(answer.status) else { return nil }
        return try? answer.json()
    }
}
