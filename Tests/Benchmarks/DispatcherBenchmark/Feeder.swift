import APNs
import PushModel
import Synchronization

/// Keeps a pool supplied from memory. The pool always has twice as many requests as its connections have streams.
final class Feeder: Sendable {
    private struct State {
        var next = 0
        var outstanding = 0
        var accepted = 0
        var waiting: CheckedContinuation<Void, Never>?
        var pool: APNsPool?
    }

    private static let window = 8000

    private let batches: [APNsBatch]
    private let state = Mutex(State())

    init(batches: [APNsBatch]) { self.batches = batches }

    var accepted: Int { state.withLock { $0.accepted } }

    /// Sends everything, and waits for the last answer.
    func run(_ pool: APNsPool) async {
        await withCheckedContinuation { continuation in
            state.withLock {
                $0.accepted = 0
                $0.pool = pool
                $0.waiting = continuation
            }
            feed()
        }
        state.withLock { $0.pool = nil }
    }

    /// Sends the first batch's requests one by one, which are not counted, and waits for the answers.
    func probe(_ pool: APNsPool) async {
        let probes = batches[0].requests.prefix(16).map { request in
            APNsBatch(
                tag: 0, lane: .now, pushType: .alert, topic: batches[0].topic, priority: 10, expiration: batches[0].expiration,
                expiresAt: batches[0].expiresAt, payload: batches[0].payload, requests: [request])
        }
        await withCheckedContinuation { continuation in
            state.withLock {
                $0.outstanding = probes.count
                $0.waiting = continuation
                $0.next = batches.count
            }
            pool.submit(Array(probes))
        }
        state.withLock { $0.next = 0 }
    }

    /// Called on a connection's thread.
    func finished(_ batches: [APNsFinishedBatch]) {
        let (done, continuation) = state.withLock { state -> (Bool, CheckedContinuation<Void, Never>?) in
            for batch in batches {
                state.outstanding -= batch.answers.count
                for answer in batch.answers {
                    if case .response(200, _, _, _) = answer.result { state.accepted += 1 }
                }
            }
            guard state.outstanding == 0, state.next == self.batches.count else { return (false, nil) }
            return (true, state.waiting.take())
        }
        if done { continuation?.resume() } else { feed() }
    }

    private func feed() {
        let (pool, due) = state.withLock { state -> (APNsPool?, ArraySlice<APNsBatch>) in
            let first = state.next
            while state.next < batches.count, state.outstanding < Self.window {
                state.outstanding += batches[state.next].requests.count
                state.next += 1
            }
            return (state.pool, batches[first..<state.next])
        }
        if !due.isEmpty { pool?.submit(Array(due)) }
    }
}
