import APNs
import Logging
import Observability
import PushModel

/// Writes the core's notes to the log. A note that may come once per job is written at `debug` only; the metrics count it.
struct NoteLog: Sendable {
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

    func write(_ note: CoreNote) {
        switch note {
        case .undecodable(let reason, let detail, let messageID, let traceparent):
            logger.error(
                "A message is no job and was dead-lettered",
                metadata: .traced(
                    traceparent,
                    [
                        DispatcherLogKey.reason: "\(reason)", DispatcherLogKey.detail: "\(detail)",
                        DispatcherLogKey.messageID: "\(messageID.map(\.description) ?? "none")",
                    ])
            )
        case .noCredential(let app, let environment, let notification, let traceparent):
            logger.debug(
                "No credential serves this app: its deliveries wait",
                metadata: .traced(
                    traceparent,
                    [
                        DispatcherLogKey.app: "\(app)", DispatcherLogKey.environment: "\(environment.rawValue)",
                        DispatcherLogKey.notification: "\(notification)",
                    ]))
        case .deadLettered(let notification, let reason, let deliveries, let traceparent):
            logger.debug(
                "Deliveries were given up and dead-lettered",
                metadata: .traced(
                    traceparent,
                    [
                        DispatcherLogKey.notification: "\(notification)", DispatcherLogKey.reason: "\(reason)",
                        DispatcherLogKey.deliveries: "\(deliveries)",
                    ]))
        case .unreadableControlMessage(let detail):
            logger.error(
                "An entry of the control stream cannot be read and was passed over", metadata: [DispatcherLogKey.detail: "\(detail)"])
        case .controlCaughtUp(let holds):
            logger.info("The control stream is read to its end", metadata: holds > 0 ? [DispatcherLogKey.holds: "\(holds)"] : [:])
        case .holdInForce(let id, let app, let lane):
            logger.notice(
                "A hold is in force",
                metadata: [
                    DispatcherLogKey.hold: "\(id)", DispatcherLogKey.app: "\(app?.text ?? "all")",
                    DispatcherLogKey.lane: "\(lane?.rawValue ?? "all")",
                ])
        case .holdOver(let id): logger.notice("A hold is over", metadata: [DispatcherLogKey.hold: "\(id)"])
        case .controlUncertain(let reason):
            logger.warning(
                "Nothing is sent until the control stream is read to its end again", metadata: [DispatcherLogKey.reason: "\(reason)"])
        case .publishFailed(let messages, let reason):
            logger.warning(
                "The broker did not take messages: outcomes and retries are published again",
                metadata: [DispatcherLogKey.count: "\(messages)", DispatcherLogKey.reason: "\(reason)"])
        case .givenUp(let messages, let reason):
            logger.error(
                "Messages are given up: no queue takes them",
                metadata: [DispatcherLogKey.count: "\(messages)", DispatcherLogKey.reason: "\(reason)"])
        case .outcomesRefused:
            logger.warning("Nothing is sent until the broker takes outcomes again: a queue that is bound to them is full, or none is bound")
        case .outcomesTaken(let milliseconds):
            logger.notice("The broker takes outcomes again", metadata: [DispatcherLogKey.outage: "\(milliseconds)"])
        case .jobsForgotten(let count):
            logger.warning("The broker delivers unsettled jobs anew", metadata: [DispatcherLogKey.count: "\(count)"])
        }
    }

    func write(_ event: APNsPoolEvent, credential: String, environment: String, service: APNsService) {
        var metadata: Logger.Metadata = [
            DispatcherLogKey.credential: "\(credential)", DispatcherLogKey.environment: "\(environment)",
            DispatcherLogKey.api: "\(service.rawValue)",
        ]
        func line(_ level: Logger.Level, _ text: Logger.Message, address: String? = nil, reason: String? = nil, state: String? = nil) {
            if let address { metadata[DispatcherLogKey.address] = "\(address)" }
            if let reason { metadata[DispatcherLogKey.reason] = "\(reason)" }
            if let state { metadata[DispatcherLogKey.state] = "\(state)" }
            logger.log(level: level, text, metadata: metadata)
        }
        switch event {
        case .stateChanged(.paused(let reason)):
            line(.error, "APNs refuses a credential: its pool is paused and its deliveries wait", reason: reason, state: "paused")
        case .stateChanged(.unavailable(let reason)):
            line(.error, "APNs has a fault: its pool stops and probes, and its deliveries wait", reason: reason, state: "unavailable")
        case .stateChanged(let state): line(.info, "A pool changed its state", state: state.label)
        case .connectionOpened(let address): line(.info, "A connection to APNs is open", address: address)
        case .connectionProven(let address): line(.debug, "APNs knows us on a connection", address: address)
        case .connectionFailed(let address, let reason): line(.warning, "A connection to APNs failed", address: address, reason: reason)
        case .connectionRetired(let address, let reason):
            line(.info, "A connection to APNs takes no more requests", address: address, reason: reason)
        case .connectionClosed(let address, let reason): line(.info, "A connection to APNs is closed", address: address, reason: reason)
        }
    }

    /// Logs APNs' answer to the request that proves a credential.
    func write(_ proof: APNsFinishedBatch, credential: String, environment: String) {
        var metadata: Logger.Metadata = [DispatcherLogKey.credential: "\(credential)", DispatcherLogKey.environment: "\(environment)"]
        for answer in proof.answers {
            switch CredentialProof.finding(answer.result) {
            case .proven: logger.info("APNs knows a credential", metadata: metadata)
            case .wrongTopic(let reason):
                metadata[DispatcherLogKey.reason] = "\(reason)"
                logger.warning("APNs knows a credential, but does not want its probe_topic", metadata: metadata)
            case .refused(let reason):
                metadata[DispatcherLogKey.reason] = "\(reason)"
                logger.error("APNs refuses a credential", metadata: metadata)
            case .open: logger.warning("A credential could not be proven yet", metadata: metadata)
            }
        }
    }
}
