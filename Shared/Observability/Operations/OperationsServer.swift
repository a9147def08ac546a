import Hummingbird
package import Logging
import NIOCore
import ServiceLifecycle

/// Serves ``OperationsRoutes`` on a port of their own, until graceful shutdown.
package struct OperationsServer: Service {
    private let application: Application<RouterResponder<BasicRequestContext>>

    /// - Parameters:
    ///   - port: 0 lets the system choose.
    ///   - onListening: Told the port once requests are taken.
    package init(
        host: String, port: Int, metrics: PrometheusMetrics, logger: Logger,
        readiness: @escaping @Sendable () async -> Readiness, onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        let router = Router(context: BasicRequestContext.self)
        OperationsRoutes(metrics: metrics, readiness: readiness).mount(on: router)
        application = Application(
            router: router, configuration: ApplicationConfiguration(address: .hostname(host, port: port)),
            onServerRunning: { channel in onListening(channel.localAddress?.port ?? port) }, logger: logger)
    }

    package func run() async throws { try await application.run() }
}
