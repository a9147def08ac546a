import PushModel
import StrictJSON
import Testing
import TokenService

@Suite("What a user's export shows of the past", .serialized, .timeLimit(.minutes(5)))
struct UserExportTests {
    /// Each user's own time at one device, whichever user has it now: by the epochs that the deliveries carry.
    @Test("The export has what was sent to an installation that the user has left") func leftInstallation() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            var sent: [String?] = []
            for user in ["ada", "grace", "ada", "eve"] {
                try await shop.register(installation(1), user: user, token: token(1))
                sent.append(try await shop.send(#"{"installation":"\#(installation(1))"}"#).json.text("id"))
            }
            for (user, own) in [("ada", [sent[0], sent[2]]), ("grace", [sent[1]]), ("eve", [sent[3]]), ("bob", [])] {
                let export = try await running.client.post("/v1/apps/shop/users/\(user)/export").json
                let exported = (export["notifications"]?.arrayValue ?? []).map { $0.text("id") }
                #expect(exported.count == own.count && Set(exported) == Set(own), "of \(user)")
            }
        }
    }
}
