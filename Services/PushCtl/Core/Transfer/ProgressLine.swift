import Foundation
import Synchronization

/// One line on a terminal that is written over and over; no output if standard error is no terminal.
final class ProgressLine: Sendable {
    private static let interval = Duration.milliseconds(500)

    private let isShown: Bool
    private let start = ContinuousClock.now
    private let last: Mutex<ContinuousClock.Instant?> = Mutex(nil)

    init(isShown: Bool = isatty(STDERR_FILENO) == 1) { self.isShown = isShown }

    /// - Parameter text: Gets the seconds since the beginning; called only when it is time to show it.
    func show(_ text: (Double) -> String) {
        guard isShown else { return }
        let now = ContinuousClock.now
        let isDue = last.withLock { last in
            if let last, last.duration(to: now) < Self.interval { return false }
            last = now
            return true
        }
        guard isDue else { return }
        let seconds = start.duration(to: now) / .seconds(1)
        StandardError.write("\r\u{1b}[K" + text(seconds))
    }

    /// Clears the terminal line for further output.
    func end() {
        if isShown { StandardError.write("\r\u{1b}[K") }
    }

    /// `3 m 20 s`
    static func duration(_ seconds: Double) -> String {
        let whole = Int(seconds.rounded(.up))
        return switch whole {
        case ..<60: "\(whole) s"
        case ..<3600: "\(whole / 60) m \(whole % 60) s"
        default: "\(whole / 3600) h \(whole % 3600 / 60) m"
        }
    }
}
