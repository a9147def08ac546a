import Hummingbird
import HummingbirdCore
package import Logging
import NIOCore
import Observability
import ServiceLifecycle
import SystemIO

/// A simulator with its control API, from start to graceful shutdown, as the program runs it.
package struct SimulatorService: Service {
    /// The ports, once they listen.
    package struct Ports: Sendable, Equatable {
        package let production: Int
        package let sandbox: Int
        package let control: Int
    }

    private let simulator: APNsSimulator
    private let logger: Logger
    private let idleTimeout: Duration
    private let onListening: @Sendable (Ports) -> Void

    /// Long polls count: more wait until another ends.
    private static let maximumControlConnections = 1024

    /// - Parameters:
    ///   - idleTimeout: Of the control API: for a request's head, between two requests, and between two parts of a body.
    ///   - onListening: Gets the ports once all of them take connections.
    package init(
        _ simulator: APNsSimulator, logger: Logger, idleTimeout: Duration = .seconds(60),
        onListening: @escaping @Sendable (Ports) -> Void = { _ in }
    ) {
        self.simulator = simulator
        self.logger = logger
        self.idleTimeout = idleTimeout
        self.onListening = onListening
    }

    package func run() async throws {
        try simulator.start()
        defer { simulator.stop() }
        let configuration = simulator.configuration
        let application = Application(
            responder: ControlRoutes(simulator: simulator, logger: logger).responder(),
            server: SidePortChannel.server(idleTimeout: idleTimeout),
            configuration: ApplicationConfiguration(
                address: .hostname(configuration.host, port: configuration.controlPort ?? 0),
                availableConnectionsDelegate: MaximumAvailableConnections(Self.maximumControlConnections)),
            onServerRunning: { announce(control: $0.localAddress?.port ?? 0) }, logger: logger)
        // Requests that wait for an inbox are answered, or the control API would delay the shutdown.
        try await withGracefulShutdownHandler {
            let place = ListeningPort(
                host: configuration.host, port: configuration.controlPort ?? 0, hostKey: SimulatorSetting.host.key,
                portKey: SimulatorSetting.controlPort.key)
            do {
                try await place.explaining { try await application.run() }
            } catch let error as ListeningError {
                throw SimulatorError(.listening, error.description)
            }
        } onGracefulShutdown: {
            // As Apple's servers announce a shutdown. It leaves before `stop` closes the connections: their loops keep the order.
            simulator.beginShutdown()
            simulator.world.close()
        }
        logger.info("The simulator has stopped")
    }

    private func announce(control: Int) {
        let ports = Ports(production: simulator.productionPort, sandbox: simulator.sandboxPort, control: control)
        logger.info(
            "The simulator is listening",
            metadata: [
                SimulatorLogKey.productionPort: "\(ports.production)", SimulatorLogKey.sandboxPort: "\(ports.sandbox)",
                SimulatorLogKey.controlPort: "\(ports.control)",
                SimulatorLogKey.productionManagementPort: "\(simulator.port(.production, isManagement: true))",
                SimulatorLogKey.sandboxManagementPort: "\(simulator.port(.sandbox, isManagement: true))",
                SimulatorLogKey.scenario: "\(simulator.performance?.scenario.name ?? Scenario.calm.name)",
            ])
        onListening(ports)
    }
}
