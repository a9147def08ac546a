import Dispatch
import PushModel
import TestSupport
import Testing
import TokenServiceApps
import TokenServiceEvents

@Suite("Names of webhooks", .timeLimit(.minutes(5)))
struct HostResolutionTests {
    /// Begins look-ups that the resolver never answers, and waits until the others are refused.
    private static func begin(
        _ number: Int, for app: App.ID, in resolution: HostResolution, refused: Int, _ group: inout ThrowingTaskGroup<Void, any Error>
    ) async throws {
        let refusals = Signal<Void>()
        for _ in 0..<number {
            group.addTask {
                do {
                    _ = try await resolution.addresses(of: "slow.example", port: 443, for: app)
                    Issue.record("the resolver has not answered")
                } catch is HostResolution.Busy {
                    refusals.send()
                } catch is CancellationError {
                    // The caller has given up.
                }
            }
        }
        _ = try await refusals.next(refused)
    }

    @Test("A resolver that hangs holds a bounded number of threads, also if their callers have given up") func hangingResolver()
        async throws
    {
        let answer = DispatchSemaphore(value: 0)
        let resolution = HostResolution(limit: 6, perApp: 4) { _, _ in
            answer.wait()
            return []
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            try await Self.begin(10, for: 1, in: resolution, refused: 6, &group)
            try #require(resolution.count == 4)
            group.cancelAll()
            try await group.waitForAll()
        }
        try #require(resolution.count == 4)
        try await withThrowingTaskGroup(of: Void.self) { group in
            try await Self.begin(1, for: 1, in: resolution, refused: 1, &group)
            try await Self.begin(4, for: 2, in: resolution, refused: 2, &group)
            try #require(resolution.count == 6)
            group.cancelAll()
            try await group.waitForAll()
        }
        for _ in 1...6 { answer.signal() }
        _ = try await eventually { resolution.count == 0 ? true : nil }
        answer.signal()
        #expect(try await resolution.addresses(of: "slow.example", port: 443, for: 1).isEmpty)
    }
}
