import Testing

@testable import APNsSimulator

@Suite("The same scenario gives the same run", .timeLimit(.minutes(5)))
struct SeededRunTests {
    private static func text(seed: Int) -> String {
        #"""
        {"v":1,"name":"mix","seed":\#(seed),"requests":[
          {"share":0.3,"do":[{"action":"answer","status":500},{"action":"answer","status":503,"weight":2},{"action":"reset"}]},
          {"share":0.2,"do":[{"action":"silence"}]}]}
        """#
    }

    /// The faults of the requests of two connections, each in its order. The connections take turns in different ways.
    private func run(seed: Int, firstTurns: Int) async throws -> [[String]] {
        try await withSimulator {
            $0.streamGate = false
            $0.scenario = try Scenario(text: Self.text(seed: seed))
        } _: { test in
            let clients = try (0..<2).map { _ in try test.client() }
            for client in clients { try client.run { !$0.limits.isEmpty } }
            for _ in 0..<firstTurns { try clients[0].submit(test.push()) }
            try clients[0].roundTrip(1)
            for _ in 0..<40 { try clients[1].submit(test.push()) }
            for _ in firstTurns..<40 { try clients[0].submit(test.push()) }
            for client in clients { try client.roundTrip(2) }
            let entries = test.simulator.journal()
            #expect(entries.count == 80)
            return (1...2).map { number in
                entries.filter { $0.connection == number }.map { "\($0.stream) \($0.action) \($0.status ?? 0)" }
            }
        }
    }

    @Test("The n-th request of a connection gets the same fault, whatever happens on others; another seed makes other faults")
    func sameRun() async throws {
        let first = try await run(seed: 4, firstTurns: 0)
        let second = try await run(seed: 4, firstTurns: 17)
        let other = try await run(seed: 5, firstTurns: 0)
        #expect(first == second)
        #expect(first != other)
        #expect(first[0] != first[1])
        #expect(Set(first[0].map { $0.drop { $0 != " " } }).count >= 4)
    }

    @Test("A share is that share in the long run, and draws do not depend on each other")
    func share() {
        let draws = (1...100_000).map { SeededDraw(9, 0, .share, 1, UInt64($0)).fraction }
        #expect((9_500...10_500).contains(draws.count { $0 < 0.1 }))
        #expect(draws.allSatisfy { $0 >= 0 && $0 < 1 })
        let pairs = zip(draws, draws.dropFirst()).count { $0.0 < 0.1 && $0.1 < 0.1 }
        #expect((800...1200).contains(pairs))
    }

    @Test("Delays follow their distribution")
    func delays() {
        let points = [(50.0, Int64(100)), (90, 200), (100, 1000)].map { DelayDistribution.Point(percent: $0.0, milliseconds: $0.1) }
        let delays = (1...10_000).map { DelayDistribution.percentiles(points).duration(SeededDraw(2, 0, .delay, 1, UInt64($0))) }.sorted()
        #expect((95...105).contains(delays[5000] / .milliseconds(1)))
        #expect((190...215).contains(delays[9000] / .milliseconds(1)))
        #expect(delays.allSatisfy { $0 >= .zero && $0 <= .milliseconds(1000) })
        let uniform = (1...1000).map { DelayDistribution.uniform(5...9).duration(SeededDraw(2, 0, .delay, 1, UInt64($0))) }
        #expect(Set(uniform) == Set((5...9).map { Duration.milliseconds($0) }))
    }
}
