import Foundation
import Synchronization

/// The destination of the log's lines. Lines of several threads never mix.
package final class LogSink: Sendable {
    package static let standardError = LogSink { line in
        do {
            try FileHandle.standardError.write(contentsOf: Data(line))
        } catch {
            // An error of the log itself has no place to be logged, and must not stop the service.
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
