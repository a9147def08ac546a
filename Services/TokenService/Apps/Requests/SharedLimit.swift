import PushModel
import Synchronization
package import TokenServiceKit

/// A fixed amount that requests share: requests of all callers, streams, uploads, or bytes of large bodies. One caller never holds more
/// than its share of it, so that the excess of one caller is refused to that caller alone. Nor do all keys and devices of one app together:
/// a key makes credentials for any number of devices. A key that is bound to no app counts for none.
///
/// Streams are long answers that are written while they are worked on: import, export, a user's export. They outlive their handler, and
/// each holds a chunk in memory and uses the database again and again.
package final class SharedLimit: Sendable {
    /// A device registers, or reports what it showed. More at a time is a fault of the app.
    static let shareOfDevice = 3

    private struct State {
        var used = 0
        /// What each caller holds; only callers that hold something are here.
        var byCaller: [String: Int] = [:]
        /// What the callers of each app hold; only apps with such callers are here.
        var byApp: [AppSlug: Int] = [:]
    }

    private let maximum: Int
    private let share: Int
    private let shareOfApp: Int
    private let reason: LoadShedding.Reason
    private let beyondShare: APIError
    private let metrics: LimitMetrics
    private let state = Mutex(State())

    /// - Parameters:
    ///   - maximum: For all callers together.
    ///   - share: For one key. A device has at most ``shareOfDevice``.
    ///   - shareOfApp: For all keys and devices of one app together.
    ///   - reason: The label of its refusals.
    package init(_ maximum: Int, share: Int, shareOfApp: Int, reason: LoadShedding.Reason, metrics: LimitMetrics) {
        self.maximum = maximum
        self.share = share
        self.shareOfApp = shareOfApp
        self.reason = reason
        beyondShare = .concurrencyLimited(reason)
        self.metrics = metrics
    }

    /// What all callers together use.
    package var used: Int { state.withLock { $0.used } }

    /// - Parameter amount: One, or bytes; not more than the share.
    /// - Throws: ``APIError`` 429 `concurrency_limited` if the caller or its app would hold more than its share, 503 `overloaded` if there
    ///   is no room.
    package func enter(_ caller: Caller, taking amount: Int = 1) throws(APIError) -> Place {
        let share = caller.device == nil ? share : min(share, Self.shareOfDevice)
        let refusal = state.withLock { state -> APIError? in
            let held = state.byCaller[caller.keyID] ?? 0
            guard held + amount <= share else { return beyondShare }
            guard state.used + amount <= maximum else { return .overloaded }
            if let app = caller.app {
                let heldByApp = state.byApp[app] ?? 0
                guard heldByApp + amount <= shareOfApp else { return beyondShare }
                state.byApp[app] = heldByApp + amount
            }
            state.byCaller[caller.keyID] = held + amount
            state.used += amount
            return nil
        }
        if let refusal {
            if refusal.isOfCaller { metrics.limited(.init(reason)) } else { metrics.shed(reason) }
            throw refusal
        }
        return Place(self, caller.keyID, caller.app, amount)
    }

    private func leave(_ key: String, _ app: AppSlug?, _ amount: Int) {
        state.withLock { state in
            state.used -= amount
            let held = (state.byCaller[key] ?? 0) - amount
            state.byCaller[key] = held > 0 ? held : nil
            guard let app else { return }
            let heldByApp = (state.byApp[app] ?? 0) - amount
            state.byApp[app] = heldByApp > 0 ? heldByApp : nil
        }
    }

    /// What one request holds. It is given back when the request ends in any way, or the body of its answer does.
    package final class Place: Sendable {
        private let limit: SharedLimit
        private let key: String
        private let app: AppSlug?
        private let amount: Int
        private let isOver = Atomic<Bool>(false)

        fileprivate init(_ limit: SharedLimit, _ key: String, _ app: AppSlug?, _ amount: Int) {
            self.limit = limit
            self.key = key
            self.app = app
            self.amount = amount
        }

        package func end() {
            if !isOver.exchange(true, ordering: .relaxed) { limit.leave(key, app, amount) }
        }

        deinit { end() }
    }
}
