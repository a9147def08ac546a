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
