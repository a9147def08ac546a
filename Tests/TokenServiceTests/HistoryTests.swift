import Postgres
import PushModel
import Testing

@Suite("The history records what happened to an installation and why", .serialized, .timeLimit(.minutes(5)))
struct HistoryTests {
    @Test("A refresh leaves no trace in the history, and every change does") func refreshAndChanges() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp(policy: "single")
            for _ in 0..<3 { try await shop.register(installation(1), user: "ada", token: token(1)) }
            #expect(try await running.history(1) == ["registered ada 1 …000001"])
            try await shop.register(installation(1), user: "ada", token: token(2))
            try await shop.register(installation(1), user: "grace", token: token(2))
            _ = try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout")
            _ = try await shop.delete("/v1/apps/shop/installations/\(installation(1))")
            try await shop.register(installation(1), user: "ada", token: token(2))
            #expect(
                try await running.history(1) == [
                    "registered ada 1 …000001", "token_replaced - 1 …000001", "token_added - 1 …000002", "signed_out ada 1 another_user",
                    "signed_in grace 2", "signed_out grace 2 logout", "deregistered - 3", "registered ada 5 …000002",
                ])
        }
    }

    @Test("Both installations have a token's move in their history") func movedToken() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp(policy: "single")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "ada", token: token(1))
            #expect(
                try await running.history(1) == [
                    "registered ada 1 …000001", "signed_out ada 1 superseded 2", "token_moved_away - 1 …000001 2",
                ])
            #expect(try await running.history(2) == ["registered ada 1", "token_moved_here - 1 …000001 1"])
        }
    }

    @Test("The history records a token that a full state no longer names") func unnamedToken() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let path = "/v1/apps/shop/installations/\(installation(1))"
            _ = try await shop.put(path, #"{"user":null,"tokens":[{"token":"\#(token(1))"},{"token":"\#(token(2))","purpose":"voip"}]}"#)
            _ = try await shop.put(path, #"{"user":null,"tokens":[{"token":"\#(token(1))"}]}"#)
            #expect(
                try await running.history(1) == ["registered - 1 …000001", "token_added - 1 …000002", "token_removed - 1 …000002"])
        }
    }
}

extension RunningService {
    /// `event owner epoch [token] [reason] [other]`, oldest first.
    func history(_ number: Int) async throws -> [String] {
        try await pool.session { session in
            try session.execute(
                """
                SELECT concat_ws(' ', event, coalesce(owner, '-'), owner_epoch, token_hint, reason, right(other_installation::text,
                    1)) AS line
                FROM installation_history WHERE installation = \(installation(number)) ORDER BY id
                """
            ).column("line")
        }
    }
}
