import APNs
import PushModel
import SystemIO

/// A harmless request that proves a credential before the first delivery needs it: a push to a device token that no device has. APNs
/// answers `BadDeviceToken` only to a provider that it knows. If the token should exist after all, the push would show and store nothing.
enum CredentialProof {
    /// No job's: jobs are numbered from one.
    static let tag = UInt64.max

    /// The meaning of an answer for the credential.
    enum Finding: Equatable {
        case proven
        /// APNs accepts the credential, but not for this topic.
        case wrongTopic(reason: String)
        /// APNs does not want the credential.
        case refused(reason: String)
        /// No finding.
        case open
    }

    /// - Parameter now: UNIX milliseconds.
    static func batch(topic: String, now: Int64) -> APNsBatch {
        let type = pushType(of: topic)
        let request = APNsRequest(id: .random(), token: .ofNoDevice, installation: .random(), ownerEpoch: 0, index: 0)
        return APNsBatch(
            tag: tag, lane: .now, pushType: type, topic: topic, priority: type.defaultPriority, expiration: 0, expiresAt: now + 60_000,
            payload: Array(#"{"aps":{"content-available":1}}"#.utf8), requests: [request])
    }

    static func finding(_ result: APNsAnswer.Result) -> Finding {
        guard case .response(let status, let reason, _, _) = result else { return .open }
        let meaning = APNsMeaning(status: status, reason: reason)
        let text = reason ?? "\(status)"
        if !meaning.isAuthenticated { return .refused(reason: text) }
        switch meaning.effect {
        case .misconfigured: return meaning.reaction == .keep ? .wrongTopic(reason: text) : .open
        case .serverFault, .connectionFault: return .open
        case .accepted, .tokenGone, .tokenRejected, .rejected, .throttled: return .proven
        }
    }

    /// A topic's suffix names its push type (Apple: Sending notification requests to APNs).
    private static func pushType(of topic: String) -> PushType {
        let types: [PushType] = [.pushtotalk, .voip, .location, .complication, .fileprovider, .liveactivity, .controls, .widgets]
        return types.first { topic.hasSuffix($0.topic(bundleID: "")) } ?? .background
    }
}
