import APNs
import Logging
import PushModel

/// Writes down what a person may want to know. What may come once per job is said at `debug` only; the metrics count it.
struct NoteLog: Sendable {
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

    func write(_ note: CoreNote) {
        switch note {
        case .undecodable(let reason, let detail, let messageID):
            logger.error(
                "A message is no job and was dead-lettered",
                metadata: [
                    LogKey.reason: "\(reason)", LogKey.detail: "\(detail)", LogKey.messageID: "\(messageID.map(\.description) ?? "none")",
                ])
        case .noCredential(let app, let environment, let notification):
            logger.debug(
                "No credential serves this app: its deliveries wait",
                metadata: [
                    LogKey.app: "\(app)", LogKey.environment: "\(environment.rawValue)", LogKey.notification: "\(notification)",
                ])
        case .deadLettered(let notification, let reason, let deliveries):
            logger.debug(
                "Deliveries were given up and dead-lettered",
                metadata: [LogKey.notification: "\(notification)", LogKey.reason: "\(reason)", LogKey.deliveries: "\(deliveries)"])
        case .unreadableControlMessage(let detail):
            logger.error("An entry of the control stream cannot be read and was passed over", metadata: [LogKey.detail: "\(detail)"])
        case .controlCaughtUp: logger.info("The control stream is read to its end")
        case .controlUncertain(let reason):
            logger.warning("Nothing is sent until the control stream is read to its end again", metadata: [LogKey.reason: "\(reason)"])
        case .publishFailed(let messages, let reason):
            logger.warning(
                "The broker did not take messages; they are published again",
                metadata: [LogKey.count: "\(messages)", LogKey.reason: "\(reason)"])
        case .jobsForgotten(let count):
            logger.warning("The broker delivers unsettled jobs anew", metadata: [LogKey.count: "\(count)"])
        }
    }

    func write(_ event: APNsPoolEvent, credential: String, environment: String) {
        let metadata: Logger.Metadata = [
            LogKey.credential: "\(credential)", LogKey.environment: "\(environment)", LogKey.event: "\(event)",
        ]
        switch event {
        case .stateChanged(.paused):
            logger.error("APNs refuses a credential: its pool is paused and its deliveries wait", metadata: metadata)
        case .stateChanged: logger.info("A pool changed its state", metadata: metadata)
        case .connectionOpened, .connectionFailed, .connectionRetired, .connectionClosed:
            logger.debug("A connection to APNs", metadata: metadata)
        }
    }
}
