import Foundation

/// The update token of a Live Activity, of this launch, and what the app says with it. Two of one activity are two states of it.
struct ActivityToken: Hashable, Sendable {
    let hex: String
    let environment: PushEnvironment
    let attributesType: String?
    /// A name of the attributes type that no other type of the app has. The server does not get it.
    let fullType: String?
    let frequentUpdates: Bool?
    let channel: String?

    init(
        _ bytes: Data, environment: PushEnvironment, attributesType: String? = nil, fullType: String? = nil, frequentUpdates: Bool? = nil,
        channel: String? = nil
    ) {
        let token = PushToken(bytes, purpose: .alert, environment: environment)
        (hex, self.environment) = (token.hex, environment)
        self.fullType = fullType ?? attributesType
        (self.attributesType, self.frequentUpdates, self.channel) = (attributesType, frequentUpdates, channel)
    }
}

/// The update tokens of this launch, by ActivityKit's ids. iOS gives the token of a running activity again at each launch.
struct ActivityBook: Hashable, Sendable {
    private var tokens: [String: ActivityToken] = [:]
    /// What the server has: one token for each id.
    private var settled: [ActivityName: ActivityToken] = [:]
    /// What the server has refused since the app was last opened.
    private var refused: [ActivityName: ActivityToken] = [:]
    /// The activities that have ended in this launch.
    private var ended: Set<String> = []

    /// - Returns: False for an activity that has ended: a token that comes late brings it not back.
    mutating func put(_ token: ActivityToken, of instance: String) -> Bool {
        guard !ended.contains(instance) else { return false }
        tokens[instance] = token
        return true
    }

    mutating func end(_ instance: String) { ended.insert(instance) }

    /// A token of this activity leaves for the server, and takes the place of those of other activities with the same id.
    mutating func begin(_ name: ActivityName) { settled = settled.filter { $0.key.id != name.id } }

    /// The server has this token. A newer one is still to be reported.
    mutating func settle(_ token: ActivityToken, of name: ActivityName) { settled[name] = token }

    /// The server has refused this token. It is reported again once the app is opened.
    mutating func refuse(_ token: ActivityToken, of name: ActivityName) { refused[name] = token }

    mutating func forgetRefusals() { refused = [:] }

    /// An activity that is over has no token.
    mutating func keep(_ isRunning: (String) -> Bool) {
        tokens = tokens.filter { isRunning($0.key) }
        settled = settled.filter { isRunning($0.key.instance) }
        refused = refused.filter { isRunning($0.key.instance) }
    }

    /// The server has forgotten the installation, or has ended its user's activities.
    mutating func forgetReports() { (settled, refused) = ([:], [:]) }

    /// The first of these with a token that the server neither has nor has just refused.
    func next(of names: [ActivityName]) -> (name: ActivityName, token: ActivityToken)? {
        names.lazy.compactMap { name in
            tokens[name.instance].flatMap { settled[name] == $0 || refused[name] == $0 ? nil : (name, $0) }
        }.first
    }
}
