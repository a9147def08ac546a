import Broker
package import Logging
package import PushModel
import Synchronization
import TokenServiceKit

/// How many of a lane's waiting jobs the relay hands to the broker at once.
///
/// A queue that takes no message (it is full, was deleted or died) would be offered the whole backlog again and again, and each offer costs
/// two transactions. The relay offers it one job a round instead, until one is confirmed.
package final class RelayWindow: Sendable {
    package static let maximum = 200
    private static let growth = 8
    /// A refused job comes again after a second and a round of the relay.
    private static let silence = Duration.seconds(5)

    fileprivate struct State {
        var sizes = Dictionary(uniqueKeysWithValues: Lane.allCases.map { ($0, RelayWindow.maximum) })
        /// A lane comes in when the broker refuses a whole offer. It goes out when the broker takes a whole offer.
        var refused: Set<Lane> = []
        var lastAnswers: [Lane: ContinuousClock.Instant] = [:]
    }

    /// The broker's answers to messages that went to one lane's queue together.
    struct Answers {
        fileprivate var confirmed = 0
        fileprivate var refused = 0

        init(_ outcomes: some Sequence<PublishOutcome> = []) {
            for outcome in outcomes { count(outcome) }
        }

        mutating func count(_ outcome: PublishOutcome) {
            switch outcome {
            case .confirmed, .confirmedElsewhere: confirmed += 1
            case .failed(.nacked), .failed(.unroutable): refused += 1
            // Not about the queue.
            case .failed: break
            }
        }
    }

    private let state = Mutex(State())
    private let logger: Logger
    private let onGrowth: @Sendable () -> Void

    /// - Parameter onGrowth: The window has grown: wakes the relay, so that it does not wait for its next round.
    package init(logger: Logger, onGrowth: @escaping @Sendable () -> Void) {
        self.logger = logger
        self.onGrowth = onGrowth
    }

    package func size(of lane: Lane) -> Int { state.withLock { $0.sizes[lane] ?? Self.maximum } }

    /// Whether the broker takes the lane's jobs, as far as this process knows.
    package func isOpen(_ lane: Lane) -> Bool { size(of: lane) == Self.maximum }

    package func isRefused(_ lane: Lane) -> Bool { state.withLock { $0.refused.contains(lane) } }

    /// Whether a fan-out may begin. If the broker refuses the lane, all its jobs would be refused, so a fan-out probes the queue only if no
    /// other job does.
    func letsFanOut(_ lane: Lane, now: ContinuousClock.Instant) -> Bool {
        state.withLock { state in
            guard state.sizes[lane] != Self.maximum, let last = state.lastAnswers[lane] else { return true }
            return last.duration(to: now) > Self.silence
        }
    }

    /// Every publisher of jobs reports here.
    func observe(_ lane: Lane, _ answers: Answers, at now: ContinuousClock.Instant = .now) {
        guard answers.confirmed + answers.refused > 0 else { return }
        let (hasGrown, news) = state.withLock { state in
            state.lastAnswers[lane] = now
            return state.observe(lane, answers)
        }
        switch news {
        case .refuses:
            logger.warning(
                "The broker refuses the lane's jobs: what waits is kept, and one job a round asks whether it takes them again",
                metadata: [LogKey.lane: "\(lane.rawValue)"])
        case .takes: logger.notice("The broker takes the lane's jobs again", metadata: [LogKey.lane: "\(lane.rawValue)"])
        case nil: break
        }
        if hasGrown { onGrowth() }
    }

    fileprivate enum News { case refuses, takes }
}

extension RelayWindow.State {
    fileprivate mutating func observe(_ lane: Lane, _ answers: RelayWindow.Answers) -> (hasGrown: Bool, news: RelayWindow.News?) {
        let before = sizes[lane] ?? RelayWindow.maximum
        let after: Int
        if answers.refused == 0 {
            after = min(RelayWindow.maximum, before * RelayWindow.growth)
        } else {
            after = answers.confirmed == 0 ? 1 : max(1, before / 2)
        }
        sizes[lane] = after
        if answers.confirmed == 0, refused.insert(lane).inserted { return (false, .refuses) }
        if answers.refused == 0, refused.remove(lane) != nil { return (true, .takes) }
        return (after > before, nil)
    }
}
