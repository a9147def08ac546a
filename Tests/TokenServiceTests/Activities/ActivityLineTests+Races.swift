import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenService

/// Two processes, or a report and fan-out, at the same moment.
extension ActivityLineTests {
    @Test("Of two starts of one activity at the same moment, by two processes, one is accepted") func startsAtOnce() async throws {
        try await Self.withPhone { running, shop in
            try await running.another { other in
                let second = other.client.with(key: shop.key)
                // Both have looked for the activity before either can write.
                let requests = try await running.holding("LOCK TABLE notifications IN SHARE MODE") {
                    let requests = [shop, second].map { client in
                        Task { try await Self.answered { try await client.post("/v1/apps/shop/notifications", Self.start("ride")).status } }
                    }
                    try await Self.waiting(2, running)
                    return requests
                }
                #expect(try await [requests[0].value, requests[1].value].sorted() == [202, 409])
                #expect(try await running.count("SELECT count(*) FROM notifications") == 1)
            }
        }
    }

    /// The second one waits for the first one's lock, and does not see its notification in the statement that waited.
    @Test("Of two updates at the same moment, by two processes, one goes and the other waits for it") func updatesAtOnce() async throws {
        try await Self.withPhone { running, shop in
            #expect(try await shop.put(Self.path + "/ride", #"{"token":"\#(token(3))"}"#).status == 200)
            try await running.another { other in
                let second = other.client.with(key: shop.key)
                let requests = try await running.holding("LOCK TABLE notifications IN SHARE MODE") {
                    let requests = [shop, second].map { client in
                        Task {
                            try await Self.answered { try await client.post("/v1/apps/shop/notifications", Self.change("ride", 1)).status }
                        }
                    }
                    try await Self.waiting(2, running)
                    return requests
                }
                #expect(try await [requests[0].value, requests[1].value] == [202, 202])
                #expect(try await running.count("SELECT count(*) FROM jobs") == 1)
                #expect(try await running.count("SELECT count(*) FROM activities WHERE sending IS NOT NULL AND is_waiting") == 1)
            }
        }
    }

    /// Fan-out and the report both wait for the tokens: fan-out has begun, and the report does not see its result.
    @Test("A device that reports its token while fan-out reads the tokens gets the newest state") func reportDuringFanOut() async throws {
        try await Self.withPhone { running, shop in
            try await shop.register(installation(2), user: "ada", token: token(11))
            #expect(try await Self.report("ride", token: token(3), on: 1, by: shop) == 200)
            try await running.jobs { signal in
                try await Self.send(Self.change("ride", 1), by: shop)
                _ = try await signal.next()
                let newest = try await Self.send(Self.change("ride", 2), by: shop)
                let report: Task<Int, any Error> = try await running.holding("LOCK TABLE tokens IN ACCESS EXCLUSIVE MODE") {
                    try await running.execute("UPDATE activities SET sending = NULL")
                    try await running.execute("UPDATE fan_outs SET free_from = now(), due_at = now() WHERE notification = \(newest)")
                    try await Self.waiting(1, running)
                    let report = Task { try await Self.answered { try await Self.report("ride", token: token(5), on: 2, by: shop) } }
                    try await Self.waiting(2, running)
                    return report
                }
                #expect(try await report.value == 200)
                var reached: Set<String> = []
                while reached.count < 2 {
                    let job = try PushJob(decoding: try await signal.next().body)
                    #expect(try Self.eta(job) == 2)
                    reached.formUnion(job.deliveries.map(\.token.hex))
                    try await running.report(.accepted, of: job, status: 200)
                }
                #expect(reached == [token(3), token(5)])
            }
        }
    }

    @Test("A registration that lists a known update token does not wait for the activity") func refreshBesideUpdate() async throws {
        try await Self.withPhone { running, shop in
            #expect(try await Self.report("ride", token: token(3), on: 1, by: shop) == 200)
            #expect(try await running.count("SELECT count(*) FROM activities") == 1)
            try await running.holding("SELECT FROM activities FOR UPDATE") {
                let tokens = #"[{"token":"\#(token(1))"},{"token":"\#(token(3))","purpose":"activity:ride"}]"#
                let refreshed = try await shop.put(
                    "/v1/apps/shop/installations/\(installation(1))", #"{"user":"ada","tokens":\#(tokens)}"#)
                #expect(refreshed.status == 200)
            }
        }
    }

    /// Repeats a request that waited for a lock for too long.
    static func answered(_ request: () async throws -> Int) async throws -> Int {
        try await eventually {
            let status = try await request()
            return status == 503 ? nil : status
        }
    }

    /// Returns when so many sessions wait for a lock.
    static func waiting(_ number: Int64, _ running: RunningService) async throws {
        _ = try await eventually { () -> Bool? in
            let found = try await running.count(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
            return found >= number ? true : nil
        }
    }
}
