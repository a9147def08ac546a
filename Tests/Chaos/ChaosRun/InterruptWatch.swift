import Dispatch
import Glibc

/// SIGINT, SIGTERM and SIGHUP call `body` instead of ending the process.
final class InterruptWatch {
    private let sources: [any DispatchSourceSignal]

    init(_ body: @escaping @Sendable () -> Void) {
        sources = [SIGINT, SIGTERM, SIGHUP].map { number in
            // A handler that does nothing, and not SIG_IGN, because started programs would inherit SIG_IGN.
            signal(number) { _ in }
            let source = DispatchSource.makeSignalSource(signal: number)
            source.setEventHandler(handler: body)
            source.resume()
            return source
        }
    }

    func end() { for source in sources { source.cancel() } }
}
