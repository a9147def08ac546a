import Foundation
import Synchronization

/// Where lines of the log go. Lines of several threads never mix.
package final class LogSink: Sendable {
    package static let standardError = LogSink { line in
        do {
            try FileHandle.standardError.write(contentsOf: Data(line))
        } catch {
            // A log that cannot be written has nowhere left to be complained about, and must not stop the service.
        }
    }

    private let turn = Mutex(())
    private let output: @Sendable ([UInt8]) -> Void

    /// - Parameter output: Called by one thread at a time, with a whole line and its line feed.
    package init(_ output: @escaping @Sendable ([UInt8]) -> Void) { self.output = output }

    func write(_ line: [UInt8]) {
        turn.withLock { _ in output(line) }
    }
}
