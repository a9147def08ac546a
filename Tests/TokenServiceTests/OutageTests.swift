import Broker
import Postgres
import PushModel
import StrictJSON
import TestBroker
import TestDatabase
import TestSupport
import Testing
import TokenService

@Suite("When something is down", .serialized, .timeLimit(.minutes(5)))
struct OutageTests {
    @Test("Without a broker the service accepts notifications up to a limit and sends them later") func brokerAway() async throws {
        let proxy = try FaultProxy(port: RunningService.port(of: TestBroker.uri()))
        try await RunningService.run(.init(settings: ["BACKLOG_LIMIT": "3", "FENCE_TIMEOUT_MS": "100"], brokerPort: proxy.port)) {
            running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            _ = try await eventually { running.service.publisher.state == .ready ? true : nil }
            proxy.set(.refusing)
            proxy.cut()
            _ = try await eventually { running.service.publisher.state == .ready ? nil : true }
            var ids: Set<String> = []
            for _ in 1...3 {
                let sent = try await shop.send(#"{"user":"ada"}"#)
                #expect(sent.status == 202)
                ids.insert(try #require(sent.json.text("id")))
            }
            let refused = try await shop.send(#"{"user":"ada"}"#)
            #expect(refused.status == 503)
            #expect(refused.code == "backlog_full")
            #expect(refused.header("retry-after") != nil)
            let out = try await shop.post("/v1/apps/shop/installations/\(installation(2))/logout")
            #expect(out.status == 200)
            try await shop.register(installation(1), user: "grace", token: token(1))
            #expect(try await shop.record(installation(1)).text("fence") == "pending")
            try await shop.register(installation(3), user: "ada", token: token(3))

            proxy.set(.forwarding)
            // All three were for the owner who left: resolved anew, they are fenced and never published.
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM receipts WHERE class = 'fenced'") == 3 ? true : nil
            }
            try await running.allPublished()
            _ = try await eventually { try await shop.record(installation(1)).text("fence") == "effective" ? true : nil }
            try await running.jobs { signal in
                let sent = try await eventually { () -> APITestClient.Answer? in
                    let sent = try await shop.send(#"{"user":"ada"}"#)
                    return sent.status == 202 ? sent : nil
                }
                let job = try PushJob(decoding: try await signal.next().body)
                #expect(job.notification.description == sent.json.text("id"))
                #expect(job.deliveries.map(\.token.hex) == [token(3)])
            }
        }
        proxy.stop()
    }

    @Test("After a broker outage the service publishes everything that it accepted")
    func afterABrokerOutageEverythingThatWasAcceptedIsPublished() async throws {
        let proxy = try FaultProxy(port: RunningService.port(of: TestBroker.uri()))
        try await RunningService.run(.init(brokerPort: proxy.port)) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            proxy.set(.refusing)
            proxy.cut()
            _ = try await eventually { running.service.publisher.state == .ready ? nil : true }
            var ids: Set<String> = []
            for _ in 1...20 { ids.insert(try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))) }
            proxy.set(.forwarding)
            let expected = ids
            try await running.jobs { signal in
                var seen: Set<String> = []
                while seen != expected { seen.insert(try PushJob(decoding: try await signal.next().body).notification.description) }
            }
        }
        proxy.stop()
    }

    @Test("Without a database the service answers 503 at once") func databaseAway() async throws {
        let proxy = try FaultProxy(port: RunningService.port(of: TestServer.uri()))
        try await RunningService.run(.init(postgresPort: proxy.port)) { running in
            let shop = try await running.client.makeApp()
            let ready = try await eventually { () -> APITestClient.Answer? in
                let answer = try await running.client.get("/readyz")
                return answer.status == 200 ? answer : nil
            }
            #expect(ready.json["ready"]?.boolValue == true)
            proxy.set(.refusing)
            proxy.cut()
            let unready = try await running.client.get("/readyz")
            #expect(unready.status == 503)
            let put = try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(put.status == 503)
            #expect(put.code == "database_unavailable")
            #expect(put.json["retryable"]?.boolValue == true)
            #expect(put.header("retry-after") != nil)
            #expect(try await shop.send(#"{"user":"ada"}"#).status == 503)
            #expect(try await running.client.get("/healthz").status == 200)
            proxy.set(.forwarding)
            _ = try await eventually { try await shop.register(installation(1), user: "ada", token: token(1)).status == 201 ? true : nil }
        }
        proxy.stop()
    }

    @Test("Outcomes wait for the database") func outcomesWaitForTheDatabase() async throws {
        let proxy = try FaultProxy(port: RunningService.port(of: TestServer.uri()))
        try await RunningService.run(.init(postgresPort: proxy.port)) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            proxy.set(.refusing)
            proxy.cut()
            try await running.report(.accepted, of: job, status: 200)
            #expect(try await running.count("SELECT count(*) FROM deliveries WHERE class IS NULL") == 1)
            proxy.set(.forwarding)
            _ = try await running.completed(job.notification, shop)
        }
        proxy.stop()
    }
}
