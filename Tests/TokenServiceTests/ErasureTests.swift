import Broker
import Observability
import Postgres
import PushModel
import StrictJSON
import TestDatabase
import TestSupport
import Testing

@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceSending
@testable import TokenServiceUpkeep

@Suite("Erasing a user", .serialized, .timeLimit(.minutes(5)))
struct ErasureTests {
    @Test("An erasure leaves nothing of the user but empty shells with their epochs") func emptyShells() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...3 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            try await shop.register(installation(9), user: "grace", token: token(9))
            // Ada was on Grace's device once.
            try await shop.register(installation(9), user: "ada", token: token(9))
            try await shop.register(installation(9), user: "grace", token: token(9))
            _ = try await shop.send(#"{"user":"ada"}"#, headers: ["Idempotency-Key": "one"])
            _ = try await shop.send(#"{"installation":"\#(installation(2))"}"#, headers: ["Idempotency-Key": "two"])
            _ = try await shop.send(#"{"user":"grace"}"#, headers: ["Idempotency-Key": "three"])
            let answer = try await running.client.erase("ada")
            #expect(answer.status == 200)
            #expect(answer.json["user_erased"]?.boolValue == true)
            #expect(answer.json.text("app") == "shop")
            #expect(answer.json.text("erased_at") != nil)
            #expect(answer.json.text("key_id") == RunningService.admin.id)
            #expect(answer.json.text("fence") == "effective")
            let erased = try #require(answer.json["erased"])
            #expect(erased.number("installations") == 3)
            #expect(erased.number("tokens") == 3)
            #expect(erased.number("notifications") == 2)
            #expect(erased.number("deliveries") == 4)
            #expect(erased.number("idempotency_records") == 2)
            #expect((erased.number("history") ?? 0) > 3)
            try await running.expectNothing(of: "ada", shells: 3)
            #expect(try await running.count("SELECT count(*) FROM installations WHERE owner = 'grace'") == 1)
            #expect(try await running.count("SELECT count(*) FROM deliveries") == 1)
            #expect(Set(try await running.fences()).isSuperset(of: (1...3).map { .init(installation: installation($0), epochsBelow: 2) }))

            let again = try await running.client.erase("ada")
            #expect(again.json.text("fence") != "pending")
            #expect(again.json["user_erased"]?.boolValue == false)
            let nobody = try await running.client.erase("nobody").json
            #expect(nobody.text("fence") == "none" && nobody["user_erased"]?.boolValue == false)
            for kind in ["installations", "tokens", "history", "notifications", "deliveries", "idempotency_records"] {
                #expect(again.json["erased"]?.number(kind) == 0)
            }
        }
    }

    @Test("The answer counts the entries in lists that name others too") func listEntries() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            #expect(try await shop.send(#"{"users":["ada","grace"]}"#).status == 202)
            let first = try await running.client.erase("ada").json
            #expect(first["user_erased"]?.boolValue == true)
            #expect(first["erased"]?.number("list_entries") == 1 && first["erased"]?.number("notifications") == 0)
            #expect(try await running.texts("owner", "SELECT owner FROM targets") == ["grace"])
            #expect(try await running.client.erase("ada").json["user_erased"]?.boolValue == false)
            // The list names no other user any more.
            let last = try await running.client.erase("grace").json
            #expect(last["user_erased"]?.boolValue == true)
            #expect(last["erased"]?.number("list_entries") == 0 && last["erased"]?.number("notifications") == 1)
        }
    }

    @Test("An erasure finds the user's receipts behind any number of another app's at an installation of the same id")
    func receiptsOfAnotherApp() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.jobs(.soon) { signal in
                #expect(try await shop.send(#"{"users":["ada","grace"]}"#).status == 202)
                return try PushJob(decoding: try await signal.next().body)
            }
            try await running.report(.accepted, of: job, status: 200)
            _ = try await running.completed(job.notification, shop)
            let others = 2 * ReceiptRemoval.batch + 1
            try await running.execute(
                """
                INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, updated_at)
                SELECT overlay(first_id_at(now() - interval '1 hour')::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid, 0, 0, -n,
                    \(installation(1)), 1, 'production', 'accepted', now()
                FROM generate_series(1, \(others)) AS n
                """)
            #expect(try await running.client.erase("ada").json["erased"]?.number("deliveries") == 1)
            #expect(try await running.count("SELECT count(*) FROM receipts WHERE notification = \(job.notification)") == 0)
            #expect(try await running.count("SELECT count(*) FROM receipts") == Int64(others))
        }
    }

    @Test("The request must confirm the user") func confirmedUser() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            for body in ["", "{}", #"{"confirm":"grace"}"#, #"{"confirm":"ada","really":true}"#] {
                #expect(try await running.client.post("/v1/apps/shop/users/ada/erase", body).status == 400)
            }
            #expect(try await shop.post("/v1/apps/shop/users/ada/erase", #"{"confirm":"ada"}"#).status == 403)
            #expect(try await shop.record(installation(1)).text("user") == "ada")
        }
    }

    @Test("The service erases many installations in several transactions") func manyInstallations() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await running.fill(user: "ada", count: 250)
            #expect(try await shop.send(#"{"user":"ada"}"#).json.number("deliveries") == 250)
            let erased = try await running.client.erase("ada").json["erased"]
            #expect(erased?.number("installations") == 250)
            #expect(erased?.number("tokens") == 250)
            #expect(erased?.number("deliveries") == 250)
            try await running.expectNothing(of: "ada", shells: 250)
        }
    }

    @Test("The service erases many Live Activities in several transactions") func manyActivities() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            let count = Int32(ActivityReading.removalBatch + 5)
            try await running.execute(
                """
                INSERT INTO activities (app_id, owner, id, started_at)
                SELECT \(app.id), owner, n::text, now() FROM unnest(ARRAY['ada', 'grace']) AS owner, generate_series(1, \(count)::int) AS n
                """)
            let first = try await running.pool.transaction { session in
                try ActivityReading(session: session, app: app).remove(of: "ada")
            }
            #expect(first.removed == ActivityReading.removalBatch && !first.isDone)
            #expect(try await running.count("SELECT count(*) FROM activities WHERE owner = 'ada'") == 5)
            #expect(try await running.client.erase("grace").json["user_erased"]?.boolValue == true)
            #expect(try await running.texts("owner", "SELECT DISTINCT owner FROM activities") == ["ada"])
        }
    }

    @Test("An erasure that waits for another one of the same user leaves nothing") func besideAnother() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let (app, count) = (try await running.app(), Int32(ActivityReading.removalBatch + 500))
            try await running.execute(
                """
                INSERT INTO activities (app_id, owner, id, started_at)
                SELECT \(app.id), 'ada', n::text, now() FROM generate_series(1, \(count)::int) AS n
                """)
            let first: PostgresQuery = """
                DELETE FROM activities WHERE id IN (SELECT id FROM activities ORDER BY id LIMIT \(ActivityReading.removalBatch))
                """
            let erasing = try await running.holding(first) {
                let erasing = Task { try await running.client.erase("ada") }
                try await running.waits("WITH found")
                return erasing
            }
            #expect(try await erasing.value.status == 200)
            #expect(try await running.count("SELECT count(*) FROM activities") == 0)
        }
    }

    /// The other one removes all that the step has found.
    @Test("A step of an erasure whose rows another one removes meanwhile is not the last step") func stepBesideAnother() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let (app, id) = (try await running.app(), PushID.timeOrdered(milliseconds: UnixClock.now()))
            let stay = ErasureStore.Ended(
                installation: installation(1), epochsFrom: 0, epochsBelow: 2, historyFrom: 0, historyTo: .max, beganAt: 0,
                at: UnixClock.now())
            try await running.execute(
                """
                INSERT INTO device_receipts (notification, number, position, event, app_id, installation, owner_epoch, at)
                SELECT \(id), n / 100, n % 100, 'shown', \(app.id), \(installation(1)), 1, now()
                FROM generate_series(1, \(Int32(ReceiptRemoval.batch))::int) AS n
                """)
            let steps: [(PostgresQuery, @Sendable (ErasureStore) throws -> RemovalStep)] = [
                ("DELETE FROM installation_history", { store in try store.removeHistory(namingUserUpTo: .max) }),
                ("DELETE FROM installation_history", { store in try store.removeHistory(of: [stay]) }),
                ("DELETE FROM device_receipts", { store in try store.removeDeviceReceipts(of: [stay]) }),
            ]
            for (removal, step) in steps {
                try await running.fillHistory(ErasureStore.historyBatch)
                let stepping = try await running.holding(removal) {
                    let stepping = Task {
                        try await running.pool.transaction { session in try step(ErasureStore(session, app: app, user: "ada")) }
                    }
                    try await running.waits("WITH found")
                    return stepping
                }
                let done = try await stepping.value
                #expect(done.removed == 0 && !done.isDone)
            }
        }
    }

    @Test("An erasure removes the whole history of two stays that overlap") func overlappingStays() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let (app, count) = (try await running.app(), ErasureStore.historyBatch + 1000)
            try await running.fillHistory(count)
            let first = try await running.number("id", "SELECT min(id) AS id FROM installation_history")
            // The first step finds the rows of the short stay twice.
            let stays = [Int64(count) / 2, Int64(count)].map { length in
                ErasureStore.Ended(
                    installation: installation(1), epochsFrom: 0, epochsBelow: 1, historyFrom: first, historyTo: first + length - 1,
                    beganAt: 0, at: UnixClock.now())
            }
            var isDone = false
            while !isDone {
                isDone = try await running.pool.transaction { session in
                    try ErasureStore(session, app: app, user: "ada").removeHistory(of: stays)
                }.isDone
            }
            #expect(try await running.count("SELECT count(*) FROM installation_history") == 0)
        }
    }

    @Test("An erasure removes what the user left on a device and keeps what others had there") func sharedDevice() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            var sent: [String: String] = [:]
            // One device, three people, one after the other.
            for user in ["grace", "ada", "eve"] {
                try await shop.register(installation(1), user: user, token: token(1))
                sent[user] = try await shop.send(#"{"installation":"\#(installation(1))"}"#).json.text("id")
            }
            // One that Ada logged out of, one that she deregistered, and one that another user logged out of after her.
            for number in 2...4 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            sent["left"] = try await shop.send(#"{"installation":"\#(installation(2))"}"#).json.text("id")
            _ = try await shop.post("/v1/apps/shop/installations/\(installation(2))/logout")
            _ = try await shop.delete("/v1/apps/shop/installations/\(installation(3))")
            try await shop.register(installation(4), user: "grace", token: token(4))
            _ = try await shop.post("/v1/apps/shop/installations/\(installation(4))/logout")

            let erased = try await running.client.erase("ada").json["erased"]
            #expect(erased?.number("installations") == 2)
            #expect(erased?.number("tokens") == 2)
            #expect(erased?.number("notifications") == 2)
            #expect(erased?.number("deliveries") == 2)
            try await running.expectNothing(of: "ada", shells: 2)
            for name in ["ada", "left"] {
                #expect(try await shop.get("/v1/apps/shop/notifications/\(try #require(sent[name]))").status == 404)
            }
            for name in ["grace", "eve"] { #expect(try await shop.status(try #require(sent[name]))["counts"]?.number("total") == 1) }
            #expect(try await shop.record(installation(1)).text("user") == "eve")
            #expect(try await shop.record(installation(4)).tokenStates == ["\(hint(4)) active"])
            let rows = try await running.count(
                "SELECT count(*) FROM installation_history WHERE owner = 'grace' AND event IN ('registered', 'signed_in', 'signed_out')")
            #expect(rows == 4)
            #expect(try await running.client.erase("ada").json["erased"]?.number("installations") == 0)
        }
    }

    @Test("An erasure keeps what the previous owner had on the device") func previousOwner() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 { try await shop.register(installation(number), user: "grace", token: token(number)) }
            let job = try await running.sendAndTake(#"{"user":"grace"}"#, with: shop)
            try await shop.register(installation(1), user: "ada", token: token(1))
            let erased = try await running.client.erase("ada").json["erased"]
            #expect(erased?.number("installations") == 1)
            #expect(erased?.number("deliveries") == 0)
            #expect(try await shop.status(job.notification.description)["counts"]?.number("pending") == 2)
            let rows = try await running.count(
                "SELECT count(*) FROM installation_history WHERE owner = 'grace' AND installation = \(installation(1))")
            #expect(rows == 2)
        }
    }

    /// If no record names a previous owner any more, what the installation has is the user's.
    @Test("The counters of a notification that loses receipts still add up") func lostReceipts() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 { try await shop.register(installation(number), user: "grace", token: token(number)) }
            let job = try await running.sendAndTake(#"{"user":"grace"}"#, with: shop)
            var (first, second) = (job, job)
            first.deliveries.removeAll { $0.installation != installation(1) }
            second.deliveries.removeAll { $0.installation != installation(2) }
            try await running.report(.accepted, of: first, status: 200)
            _ = try await eventually { try await running.count("SELECT count(*) FROM receipts") == 1 ? true : nil }
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.execute("DELETE FROM installation_history WHERE owner = 'grace'")
            #expect(try await running.client.erase("ada").json["erased"]?.number("deliveries") == 1)
            let waiting = try await shop.status(job.notification.description)
            #expect(waiting["counts"]?.number("total") == 2 && waiting["counts"]?.number("accepted") == 1)
            #expect(waiting["counts"]?.number("pending") == 1)
            try await shop.register(installation(2), user: "ada", token: token(2))
            try await running.execute("DELETE FROM installation_history WHERE owner = 'grace'")
            #expect(try await running.client.erase("ada").json["erased"]?.number("deliveries") == 0)
            try await running.expectConsistentCounters()
            // It is under way and ends by itself. Its token is erased, so its outcome is counted and leaves no receipt.
            try await running.report(.fenced, of: second)
            let status = try await running.completed(job.notification, shop).json
            #expect(status["counts"]?.number("total") == 2 && status["counts"]?.number("fenced") == 1)
            #expect(try await running.count("SELECT count(*) FROM receipts") == 0)
            try await running.expectConsistentCounters()
            // Later reports are about nothing that is known.
            try await running.report(.accepted, of: job, status: 200)
            try await running.report(.tokenGone, of: job, status: 410, reason: "Unregistered", timestamp: UnixClock.now())
            _ = try await eventually { running.metrics.render().contains("push_token_service_outcomes_repeated_total 4") ? true : nil }
            try await running.expectConsistentCounters()
            #expect(try await running.count("SELECT count(*) FROM installation_history WHERE owner = 'ada'") == 0)
            #expect(try await running.count("SELECT count(*) FROM tokens") == 0)
        }
    }

    @Test("A job that the relay still has to publish never reaches the device") func unpublishedJob() async throws {
        let unpublished = RunningService.Options(settings: ["FENCE_TIMEOUT_MS": "100"], without: { $0 is Publisher || $0 is Relay })
        try await RunningService.run(unpublished) { dead in
            let shop = try await dead.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "grace", token: token(2))
            _ = try await shop.send(#"{"user":"ada"}"#)
            let toGrace = try await shop.send(#"{"installation":"\#(installation(2))"}"#).json.text("id")
            #expect(try await dead.client.erase("ada").json.text("fence") == "pending")
            #expect(try await dead.client.erase("ada").json.text("fence") == "pending")
            try await dead.another { running in
                try await running.jobs { signal in
                    let job = try PushJob(decoding: try await signal.next().body)
                    #expect(job.notification.description == toGrace)
                }
                _ = try await eventually { try await running.client.erase("ada").json.text("fence") != "pending" ? true : nil }
                #expect(try await running.fences().contains(.init(installation: installation(1), epochsBelow: 2)))
            }
        }
    }

    @Test("A delivery whose token is gone ends and leaves no receipt") func goneToken() async throws {
        let unpublished = RunningService.Options(settings: ["FENCE_TIMEOUT_MS": "100"], without: { $0 is Publisher || $0 is Relay })
        try await RunningService.run(unpublished) { dead in
            let shop = try await dead.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            try await dead.execute("DELETE FROM tokens")
            try await dead.another { running in
                let other = shop.with(port: running.client.port)
                let status = try await eventually { () -> JSONValue? in
                    let status = try await other.status(id)
                    return status.text("state") == "completed" ? status : nil
                }
                #expect(status["counts"]?.number("total") == 1 && status["counts"]?.number("fenced") == 1)
                #expect(status["deliveries"]?.arrayValue?.isEmpty == true)
            }
        }
    }

    /// What a process leaves that died after its first transaction: shells, fences and the list of what is left to do.
    /// The outcome's transaction has read the token and written the receipt, and waits for the notification.
    @Test("An outcome that is being stored when its user is erased leaves no receipt") func outcomeUnderWay() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "grace", token: token(2))
            let job = try await running.jobs(.bulk) { signal in
                #expect(try await shop.send(#"{"all":true}"#).status == 202)
                return try PushJob(decoding: try await signal.next().body)
            }
            var ofAda = job
            ofAda.deliveries.removeAll { $0.installation != installation(1) }
            try await running.sending(job.notification, shop)
            let waiters: PostgresQuery = """
                SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                """
            let erasing = try await running.holding("SELECT FROM notifications FOR UPDATE") { [ofAda] in
                try await running.report(.rejected, of: ofAda, status: 400, reason: "BadTopic")
                _ = try await eventually { try await running.count(waiters) == 1 ? true : nil }
                let isErased = Box<Bool>()
                let erasing = Task {
                    defer { isErased.open(true) }
                    return try await running.client.erase("ada")
                }
                // It waits for the outcome, or it did not look.
                _ = try await eventually {
                    let count = try await running.count(waiters)
                    return isErased.value == true || count == 2 ? true : nil
                }
                return erasing
            }
            #expect(try await erasing.value.status == 200)
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM jobs WHERE ended = B'0'::bit(100)") == 0 ? true : nil
            }
            #expect(try await running.count("SELECT count(*) FROM receipts") == 0)
        }
    }

    @Test("The next call finishes a call that was cut short") func cutShort() async throws {
        try await RunningService.run(.init(database: { $0.lockTimeout = .seconds(2) })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "grace", token: token(1))
            _ = try await running.sendAndTake(#"{"user":"grace"}"#, with: shop)
            try await shop.register(installation(1), user: "ada", token: token(1))
            _ = try await running.sendAndTake(#"{"installation":"\#(installation(1))"}"#, with: shop)
            // Jobs that another transaction has locked keep the call from its second part.
            let held = Signal<Void>()
            let release = Signal<Void>()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await running.pool.transactionHeld(by: "SELECT number FROM jobs FOR UPDATE", held, until: release)
                }
                try await held.next()
                #expect(try await running.client.erase("ada").status == 503)
                release.send(())
                try await group.waitForAll()
            }
            #expect(try await running.count("SELECT count(*) FROM erasures") == 1)
            #expect(try await running.count("SELECT count(*) FROM installations WHERE owner = 'ada'") == 0)
            // A new user comes to the device before the erasure is repeated.
            try await shop.register(installation(1), user: "eve", token: token(1))
            _ = try await shop.send(#"{"user":"eve"}"#)
            let erased = try await running.client.erase("ada").json["erased"]
            #expect(erased?.number("installations") == 0)
            #expect(erased?.number("deliveries") == 1)
            #expect(try await running.count("SELECT count(*) FROM erasures") == 0)
            #expect(try await running.count("SELECT count(*) FROM installation_history WHERE owner = 'ada'") == 0)
            #expect(try await running.count("SELECT count(*) FROM installation_history WHERE owner = 'eve'") > 0)
            #expect(try await shop.record(installation(1)).tokenStates == ["\(hint(1)) active"])
            #expect(try await running.count("SELECT count(*) FROM deliveries") == 2)
            try await running.expectConsistentCounters()
        }
    }

    @Test("A registration that races with the erasure is erased or new") func racingRegistration() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...20 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 11...30 {
                    group.addTask { try await shop.register(installation(number), user: "ada", token: token(number)).status }
                }
                group.addTask { try await running.client.erase("ada").status }
                for try await status in group { #expect(status == 200 || status == 201) }
            }
            // Those that were not registered again are gone; of the others, each is whole or a shell.
            #expect(try await running.count("SELECT count(*) FROM installations WHERE owner = 'ada' AND registered_at < created_at") == 0)
            for number in 1...10 { #expect(try await shop.record(installation(number)).text("user") == nil) }
            let whole = try await running.count("SELECT count(*) FROM installations WHERE owner = 'ada'")
            #expect(try await running.count("SELECT count(*) FROM tokens") == whole)
            #expect(
                try await running.count("SELECT count(*) FROM installations WHERE owner IS NULL AND signed_out_reason <> 'erased'") == 0)
            _ = try await running.client.erase("ada")
            try await running.expectNothing(of: "ada", shells: 30)
        }
    }

    @Test("The export holds everything of the user and nothing of others") func exportedData() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "grace", token: token(1))
            _ = try await shop.send(#"{"installation":"\#(installation(1))"}"#)
            try await shop.register(installation(1), user: "ada", token: token(1), more: #","locale":"en_GB""#)
            let toAda = try await shop.send(#"{"user":"ada"}"#).json.text("id")
            let answer = try await running.client.post("/v1/apps/shop/users/ada/export")
            #expect(answer.status == 200)
            #expect(answer.json.text("user") == "ada")
            let device = try #require(answer.json["installations"]?[0])
            #expect(device["tokens"]?[0]?.text("token") == token(1))
            #expect(device.text("locale") == "en_GB")
            #expect(answer.json["history"]?.arrayValue?.isEmpty == false)
            #expect(!String(decoding: answer.bytes, as: UTF8.self).contains("grace"))
            let sent = try #require(answer.json["notifications"]?.arrayValue)
            #expect(sent.map { $0.text("id") } == [toAda])
            #expect(sent[0]["payload"]?["aps"]?.text("alert") == "hello")
            #expect(sent[0]["deliveries"]?.arrayValue?.count == 1)
            #expect(try await shop.post("/v1/apps/shop/users/ada/export").status == 403)
        }
    }

    @Test("The export shows nothing of the device before the user came") func earlierHistory() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 { try await shop.register(installation(1), user: "grace", token: token(number)) }
            for number in 2...3 { try await shop.register(installation(1), user: "ada", token: token(number)) }
            let events = try await running.client.post("/v1/apps/shop/users/ada/export").json["history"]?.arrayValue ?? []
            let hints = events.compactMap { $0.text("token_hint") }
            #expect(Set(hints) == [hint(2), hint(3)])
            #expect(events.compactMap { $0.text("event") } == ["signed_in", "token_replaced", "token_added"])
        }
    }

    @Test("An export of many pages is complete") func exportPages() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await running.fill(user: "ada", count: 450)
            for _ in 1...2 { _ = try await shop.send(#"{"user":"ada"}"#) }
            let json = try await running.client.post("/v1/apps/shop/users/ada/export").json
            #expect(Set(json["installations"]?.arrayValue?.compactMap { $0.text("id") } ?? []).count == 450)
            #expect(json["installations"]?.arrayValue?.count == 450)
            #expect(json["history"]?.arrayValue?.count == 900)
            #expect(json["notifications"]?.arrayValue?.map { $0["deliveries"]?.arrayValue?.count } == [450, 450])
        }
    }
}
