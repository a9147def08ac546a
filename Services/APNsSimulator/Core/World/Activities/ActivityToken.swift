/// The purpose of a token that a device has beside its own.
enum ActivityToken: Equatable {
    /// Starts activities of one attributes type.
    case start(device: TokenKey, attributesType: String)
    /// Updates and ends one activity.
    case update(device: TokenKey, activityID: String)
    /// Replaced, or its app is gone: 410 since this moment, UNIX milliseconds.
    case retired(SimulatorEnvironment, since: Int64)

    var device: TokenKey? {
        switch self {
        case .start(let device, _), .update(let device, _): device
        case .retired: nil
        }
    }

    /// The same on a device that has another token now.
    func moved(to device: TokenKey) -> ActivityToken {
        switch self {
        case .start(_, let type): .start(device: device, attributesType: type)
        case .update(_, let id): .update(device: device, activityID: id)
        case .retired: self
        }
    }
}

/// A start token of a device. An app has one for each attributes type.
package struct StartToken: Sendable, Equatable {
    package let attributesType: String
    /// Lower-case hex.
    package let token: String
}

/// The address of a push, as its device sees it.
enum PushTarget: Equatable {
    /// The device's own token.
    case device
    case start(attributesType: String)
    case update(activityID: String)
    case channel(String)

    init?(_ token: ActivityToken) {
        switch token {
        case .start(_, let type): self = .start(attributesType: type)
        case .update(_, let id): self = .update(activityID: id)
        case .retired: return nil
        }
    }

    var channelID: String? {
        if case .channel(let id) = self { id } else { nil }
    }
}
