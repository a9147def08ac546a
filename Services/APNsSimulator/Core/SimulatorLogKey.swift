/// Every key of the simulator's log lines. Device tokens appear as hints only.
enum SimulatorLogKey {
    static let connection = "connection"
    static let environment = "apns.environment"
    static let error = "error"
    static let action = "apns.action"
    static let apnsID = "apns.id"
    static let pushType = "apns.push_type"
    static let reason = "apns.reason"
    static let status = "apns.status"
    static let stream = "stream"
    static let tokenHint = "token.hint"
    static let topic = "apns.topic"
    static let productionPort = "port.production"
    static let sandboxPort = "port.sandbox"
    static let controlPort = "port.control"
}
