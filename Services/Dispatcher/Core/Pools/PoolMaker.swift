import APNs
import Logging
import OpenSSL
import PushModel
import SystemIO

/// Makes the pools of this process, and passes on the batches that they finish.
struct PoolMaker: Sendable {
    let settings: DispatcherSettings
    let configuration: APNsPoolConfiguration
    let loops: APNsEventLoops
    let gate: ControlGate
    let inbox: Mailbox<CoreEvent>
    let requests: ChannelRequests
    let notes: NoteLog
    let logger: Logger

    func make(_ plan: CredentialPlan.Pool, _ service: APNsService) throws(TLSError) -> APNsPool {
        let (name, environment) = (plan.credential.name, plan.environment)
        return try APNsPool(
            on: loops, configuration: configuration(service), credential: plan.credential,
            endpoint: settings.endpoint(environment, service), environment: environment, service: service,
            gate: { [gate] batch, request in
                // A proof and a request of management belong to no installation, so no fence can cover them.
                service == .channels || batch.tag == CredentialProof.tag ? nil : gate.stopReason(for: request, of: batch)
            },
            onFinished: { finished in
                var rest = finished
                if service == .device, finished.contains(where: \.isProof) {
                    for proof in finished where proof.isProof { notes.write(proof, credential: name, environment: environment.rawValue) }
                    rest.removeAll(where: \.isProof)
                }
                finish(rest)
            },
            onEvent: { [notes] in notes.write($0, credential: name, environment: environment.rawValue, service: service) },
            logger: logger)
    }

    /// - Parameter finished: all of one service.
    func finish(_ finished: [APNsFinishedBatch]) {
        guard let first = finished.first else { return }
        if first.batch.target.service == .channels {
            requests.finish(finished)
        } else {
            inbox.post(contentsOf: finished.map(CoreEvent.batchFinished))
        }
    }

    private func configuration(_ service: APNsService) -> APNsPoolConfiguration {
        var configuration = configuration
        // Requests of management are few.
        configuration.connections = service == .channels ? 1 : settings.connections
        configuration.maximumConnections = service == .channels ? 1 : settings.maximumConnections
        // The scheduler bounds the deliveries in progress. Twice as much lets no job that it has begun come back.
        configuration.maximumQueued = max(configuration.maximumQueued, 2 * settings.bulkDeliveries)
        configuration.proxy = settings.proxy
        return configuration
    }
}

extension APNsFinishedBatch {
    fileprivate var isProof: Bool { batch.tag == CredentialProof.tag }
}

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
