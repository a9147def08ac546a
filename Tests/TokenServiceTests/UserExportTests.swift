import PushModel
import StrictJSON
import Testing
import TokenService

@Suite("What a user's export tells of the past", .serialized, .timeLimit(.minutes(5)))
struct UserExportTests {
    /// Each user's own time at one device, whoever has it now: by the epochs that the deliveries carry.
    @Test func whatWasSentToAnInstallationThatTheUserHasLeftIsThere() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            var sent: [String?] = []
            for user in ["ada", "grace", "ada", "eve"] {
                try await shop.register(installation(1), user: user, token: token(1))
                sent.append(try await shop.send(#"{"installation":"\#(installation(1))"}"#).json.text("id"))
            }
            for (user, own) in [("ada", [sent[0], sent[2]]), ("grace", [sent[1]]), ("eve", [sent[3]]), ("bob", [])] {
                let export = try await running.client.post("/v1/apps/shop/users/\(user)/export").json
                let told = (export["notifications"]?.arrayValue ?? []).map { $0.text("id") }
                #expect(told.count == own.count && Set(told) == Set(own), "of \(user)")
            }
        }
    }
}
