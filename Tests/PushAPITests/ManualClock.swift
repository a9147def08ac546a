import Synchronization

@testable import PushAPI

/// Time that passes when a call waits.
final class ManualClock: Sendable {
    private let state = Mutex((now: ContinuousClock.now, pauses: [Duration]()))

    /// What the calls have waited, one after another.
    var pauses: [Duration] { state.withLock { $0.pauses } }

    var clock: CallClock {
        CallClock(now: { self.state.withLock { $0.now } }) { pause in
            try Task.checkCancellation()
            self.state.withLock { state in
                state.now += pause
                state.pauses.append(pause)
            }
        }
    }
}

extension PushAPI {
    /// Talks to a test's server, and waits by a test's clock.
    static func test(_ url: String, _ clock: ManualClock = ManualClock(), deadline: Duration = .seconds(60)) -> PushAPI {
        var api = PushAPI(baseURL: url, key: "psh_test", deadline: deadline, attemptTimeout: .seconds(30))
        api.clock = clock.clock
        return api
    }
}
