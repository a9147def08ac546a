import SystemIO

/// A command from outside a loop.
enum LoopCommand: Sendable {
    case adopt(TCPSocket, SimulatorPort)
    /// `lastStream` nil: all that have come.
    case goAway(APNsSimulator.Selection, lastStream: Int32?, code: UInt32, debug: [UInt8])
    case setStreams(APNsSimulator.Selection, UInt32)
    case setSilent(APNsSimulator.Selection, Bool)
    case close(APNsSimulator.Selection, abruptly: Bool)
    case begin(ScenarioRun)
    /// Announce the shutdown, and go on until `stop`.
    case leave
    case stop
}
