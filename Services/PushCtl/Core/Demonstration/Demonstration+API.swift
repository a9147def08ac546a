import PushAPI
import PushModel
import StrictJSON

extension Demonstration {
    /// Installs the app on the device in the simulated APNs.
    func install(_ device: DemoDevice) async throws {
        try await simulator.put("/v1/devices/\(device.token)") { body in
            body.field("environment", device.environment.rawValue)
            body.field("state", "installed")
            body.field("name", device.name)
        }
    }

    @discardableResult
    func register(_ device: DemoDevice, user: String) async throws -> PushAPI.Installation {
        let token = PushAPI.Token(device.token, environment: device.environment.rawValue)
        return try await backend.register(device.installation, .init(user: user, tokens: [token]))
    }

    func send(_ title: String, _ text: String, to user: String) async throws -> DemoPush {
        let calledAt = currentMilliseconds()
        let accepted = try await backend.send(.init(to: .user(user), .alert(title: title, body: text)))
        return DemoPush(id: accepted.id, calledAt: calledAt)
    }

    /// The device's next answer from the simulated APNs, once; later ones are as usual.
    func script(_ device: DemoDevice, status: Int, reason: String, timestamp: Bool = false) async throws {
        try await simulator.put("/v1/devices/\(device.token)/script") { body in
            body.array("answers") { answers in
                answers.object { answer in
                    answer.field("status", status)
                    answer.field("reason", reason)
                    if timestamp { answer.field("timestamp_ms", currentMilliseconds()) }
                }
            }
            body.field("then", "accept")
        }
    }

    func inbox(_ device: DemoDevice) async throws -> [JSONValue] {
        let answer = try await simulator.get("/v1/devices/\(device.token)/inbox")
        return answer["notifications"]?.arrayValue ?? []
    }

    func inboxCount(_ device: DemoDevice) async throws -> Int { try await inbox(device).count }

    func expectInbox(_ device: DemoDevice, _ expected: Int) async throws {
        let shown = try await inboxCount(device)
        try expect(shown == expected, "\(device.name)'s lock screen shows \(shown) notifications instead of \(expected)")
    }

    func show(_ push: DemoPush, _ status: PushAPI.NotificationStatus, on devices: [DemoDevice]) async throws {
        var screens: [(device: DemoDevice, inbox: [JSONValue])] = []
        for device in devices { screens.append((device, try await inbox(device))) }
        try report.show(push.table(status, on: screens))
    }

    /// The status document, once every delivery has its outcome.
    func settled(_ push: DemoPush) async throws -> PushAPI.NotificationStatus {
        try await eventually("notification \(push.id) is completed") {
            let status = try await backend.status(push.id)
            return status.state == .completed ? status : nil
        }
    }

    /// The status document, once the delivery to `device` waits for another attempt because of `outcome`.
    func lastAttempt(of push: DemoPush, on device: DemoDevice, is outcome: String) async throws -> PushAPI.NotificationStatus {
        try await eventually("the delivery to \(device.name) is \(outcome)") {
            let status = try await backend.status(push.id)
            let delivery = status.deliveries.first { $0.installation == device.installation }
            return delivery?.lastAttempt?.outcome == outcome ? status : nil
        }
    }

    func count(_ status: PushAPI.NotificationStatus, _ outcome: String) -> Int { status.counts[outcome] ?? 0 }

    func expect(_ condition: Bool, _ otherwise: String) throws {
        guard condition else { throw CommandFailure("the demonstration failed: \(otherwise)") }
    }

    /// Asks again, five times a second for a minute at most, until `answer` has a value: the API has no way to wait.
    func eventually<Answer>(_ what: String, _ answer: () async throws -> Answer?) async throws -> Answer {
        let clock = ContinuousClock()
        let deadline = clock.now + .seconds(60)
        while clock.now < deadline {
            if let value = try await answer() { return value }
            try await Task.sleep(for: .milliseconds(200))
        }
        throw CommandFailure("the demonstration failed: a minute passed and it is not so that \(what)")
    }
}
