import Postgres
import Testing

@Suite("One user, one installation, where the app wants it (`docs/registration.md`, rule 5)", .timeLimit(.minutes(5)))
struct RegistryRaceTests {
    @Test("Concurrent sign-ins under the single policy leave one installation")
    func concurrentSignInsUnderTheSinglePolicyLeaveOne() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp(policy: "single")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...16 {
                    group.addTask {
                        _ = try await eventually {
                            try await shop.register(installation(number), user: "ada", token: token(number)).status == 503 ? nil : true
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await running.count("SELECT count(*) FROM installations WHERE owner = 'ada'") == 1)
        }
    }
}
