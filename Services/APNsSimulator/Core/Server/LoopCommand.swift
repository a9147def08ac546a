import SystemIO

/// What a loop is told from outside.
enum LoopCommand: Sendable {
    case adopt(TCPSocket, SimulatorPort)
    /// `lastStream` nil: all that have come.
    case goAway(APNsSimulator.Selection, lastStream: Int32?, code: UInt32, debug: [UInt8])
    case setStreams(APNsSimulator.Selection, UInt32)
    case setSilent(APNsSimulator.Selection, Bool)
    case close(APNsSimulator.Selection, abruptly: Bool)
    case begin(ScenarioRun)
    /// Say good-bye, and go on until `stop`.
    case leave
    case stop
}
