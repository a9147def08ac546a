import Foundation

/// The update token of a Live Activity, of this launch, and what the app says with it. Two of one activity are two states of it.
struct ActivityToken: Hashable, Sendable {
    let hex: String
    let environment: PushEnvironment
    let attributesType: String?
    let frequentUpdates: Bool?
    let channel: String?

    init(
        _ bytes: Data, environment: PushEnvironment, attributesType: String? = nil, frequentUpdates: Bool? = nil, channel: String? = nil
    ) {
        let token = PushToken(bytes, purpose: .alert, environment: environment)
        (hex, self.environment) = (token.hex, environment)
        (self.attributesType, self.frequentUpdates, self.channel) = (attributesType, frequentUpdates, channel)
    }
}

/// The running Live Activities of this launch. iOS gives the token of a running activity again at each launch.
struct ActivityBook: Hashable, Sendable {
    private var tokens: [String: ActivityToken] = [:]
    /// What the server has.
    private var reported: [String: ActivityToken] = [:]

    mutating func begin(_ activity: String, _ token: ActivityToken) { tokens[activity] = token }

    /// It is over, or the server never takes it.
    mutating func drop(_ activity: String) {
        tokens[activity] = nil
        reported[activity] = nil
    }

    mutating func confirm(_ activity: String, _ token: ActivityToken) { reported[activity] = token }

    /// The server has forgotten the installation.
    mutating func forgetReports() { reported = [:] }

    /// One that the server does not have yet.
    var next: (activity: String, token: ActivityToken)? {
        tokens.filter { reported[$0.key] != $0.value }.min { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}

/// Live Activities whose end the server does not know yet, in their order. They outlive the launch: iOS does not report an end twice.
struct EndedActivities: Codable, Hashable, Sendable {
    /// One more drops the oldest, whose token APNs calls gone then.
    static let capacity = 100

    private(set) var pending: [String] = []

    /// - Returns: False if it is here already.
    mutating func add(_ activity: String) -> Bool {
        guard !pending.contains(activity) else { return false }
        pending.append(activity)
        if pending.count > Self.capacity { pending.removeFirst() }
        return true
    }

    /// - Returns: False if it was not here.
    mutating func remove(_ activity: String) -> Bool {
        guard let index = pending.firstIndex(of: activity) else { return false }
        pending.remove(at: index)
        return true
    }

    mutating func removeAll() { pending = [] }
}
