import Broker
import Logging
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenServiceApps
@testable import TokenServiceEvents
@testable import TokenServiceKit
@testable import TokenServiceRegistry
@testable import TokenServiceSending

@Suite("Receipts that devices report", .serialized, .timeLimit(.minutes(5)))
struct DeviceReceiptTests {
    private static let asked = #","device_receipts":true"#

    private static func receipt(_ notification: PushID, job: Int = 0, _ event: String = "shown", at: String = "2026-11-26T10:00:00Z")
        -> String
    {
        #"{"notification":"\#(notification)","job":\#(job),"event":"\#(event)","at":"\#(at)"}"#
    }

    private static func report(
        _ receipts: String..., by device: APITestClient, of id: PushID = installation(1)
    ) async throws -> APITestClient.Answer {
        try await device.post("/v1/apps/shop/installations/\(id)/receipts", #"{"receipts":[\#(receipts.joined(separator: ","))]}"#)
    }

    /// Counted, repeated, and `index code` of each refused one.
    private static func result(_ answer: APITestClient.Answer) -> [String] {
        let refused = (answer.json["refused"]?.arrayValue ?? []).map { "\($0.number("index") ?? -1) \($0.text("code") ?? "")" }
        return ["\(answer.json.number("counted") ?? -1)", "\(answer.json.number("repeated") ?? -1)"] + refused
    }

    // MARK: The payload

    @Test("A payload names its job if the sender asks for receipts, and is passed on byte for byte if not") func payload() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let plain = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            #expect(String(decoding: plain.payload, as: UTF8.self) == #"{"aps":{"alert":"hello"}}"#)
            let named = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            let payload = try JSONValue.parse(named.payload)
            #expect(payload["aps"]?.text("alert") == "hello")
            #expect(payload["push-receipt"]?.text("notification") == named.notification.description)
            #expect(payload["push-receipt"]?.number("job") == 0)
        }
    }

    @Test("Each job of an audience names itself, in each language") func jobsOfAnAudience() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...3 {
                let locale = number == 1 ? "de" : "en"
                let body = #"{"user":"u\#(number)","tokens":[{"token":"\#(token(number))"}],"locale":"\#(locale)"}"#
                #expect(try await shop.put("/v1/apps/shop/installations/\(installation(number))", body).status == 201)
            }
            try await running.jobs(.bulk) { signal in
                let more = Self.asked + #","locales":{"de":{"payload":{"aps":{"alert":"hallo"}}}}"#
                #expect(try await shop.send(#"{"all":true}"#, more: more).status == 202)
                var alerts: [String: Int] = [:]
                var numbers: Set<Int64> = []
                for _ in 1...2 {
                    let job = try PushJob(decoding: try await signal.next().body)
                    let payload = try JSONValue.parse(job.payload)
                    alerts[try #require(payload["aps"]?.text("alert"))] = job.deliveries.count
                    let number = try #require(payload["push-receipt"]?["job"]?.integerValue)
                    numbers.insert(number)
                    // A delivery's id names its job.
                    for delivery in job.deliveries { #expect(DeliveryNames.place(of: delivery.id).job == Int(number)) }
                }
                #expect(alerts == ["hallo": 1, "hello": 2] && numbers == [0, 1])
            }
        }
    }

    @Test("Only alerts have receipts, their payload leaves room, and it has no such key of its own") func rules() throws {
        #expect(try ParsedRequest(alert: #""device_receipts":true"#).request?.deviceReceipts == true)
        let silent = try ParsedRequest(content: #"{"content_available":true}"#, more: Self.asked)
        #expect(silent.problems == ["/device_receipts not_allowed"])
        let taken = try ParsedRequest(content: #"{"alert":"a","custom":{"push-receipt":1}}"#, more: Self.asked)
        #expect(taken.problems == ["/content/custom/push-receipt not_allowed"])
        #expect(try ParsedRequest(content: #"{"alert":"a","custom":{"push-receipt":1}}"#).problems == [])
        // `{"aps":{"alert":""}}` is 20 bytes.
        let room = 4096 - JobTemplate.maximumJobNameBytes - 20
        for (more, problems) in [(0, []), (1, ["/content too_large"])] {
            let text = String(repeating: "x", count: room + more)
            #expect(try ParsedRequest(content: #"{"alert":"\#(text)"}"#, more: Self.asked).problems == problems)
        }
        #expect(JobTemplate.maximumJobNameBytes == 88)
    }

    // MARK: Reports

    @Test("Each event of a delivery counts once, and the notification's status shows it") func counts() async throws {
        try await RunningService.withDevices { running, shop in
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            try await running.sending(job.notification, shop)
            #expect(try await shop.status(job.notification.description)["device_receipts"]?.number("shown") == 0)
            let (phone, tablet) = (try await shop.device(user: "ada"), try await shop.device(user: "ada", id: installation(2)))
            let (shown, opened) = (Self.receipt(job.notification), Self.receipt(job.notification, "opened"))
            #expect(Self.result(try await Self.report(shown, opened, shown, by: phone)) == ["2", "1"])
            #expect(Self.result(try await Self.report(shown, by: phone)) == ["0", "1"])
            #expect(Self.result(try await Self.report(shown, by: tablet, of: installation(2))) == ["1", "0"])
            try await running.report(.accepted, of: job, status: 200)
            _ = try await running.completed(job.notification, shop)
            let status = try await eventually {
                let status = try await shop.status(job.notification.description)
                return status["device_receipts"]?.number("shown") == 2 ? status : nil
            }
            #expect(status["device_receipts"]?.number("opened") == 1)
            #expect(status["device_receipts"]?.number("dismissed") == 0)
            let first = status["deliveries"]?.arrayValue?.first { $0.text("installation") == installation(1).description }
            #expect(first?.text("shown_at") != nil && first?.text("opened_at") != nil && first?.text("dismissed_at") == nil)
            let listed = try await shop.get("/v1/apps/shop/notifications/\(job.notification)/deliveries").json["deliveries"]?.arrayValue
            #expect(listed?.count { $0.text("shown_at") != nil } == 2)
            try await running.counted(#"device_receipts_total{result="counted"}"#, 3)
            try await running.counted(#"device_receipts_total{result="repeated"}"#, 2)
        }
    }

    /// Each version makes the row dearer to read while a snapshot is open.
    @Test("However many requests report, they write no version of the notification's row, and each receipt is added to it once")
    func oneVersion() async throws {
        try await RunningService.run(.init(without: { $0 is DeviceReceiptCounter })) { running in
            let shop = try await running.client.makeApp()
            for number in 1...3 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            try await running.sending(job.notification, shop)
            try await running.allPublished()
            let version: PostgresQuery = "SELECT ctid::text AS version FROM notifications WHERE device_receipts"
            func counts() async throws -> [String] {
                try await running.texts(
                    "counts", "SELECT concat_ws(' ', shown, opened, dismissed) AS counts FROM notifications WHERE device_receipts")
            }
            let before = try await running.texts("version", version)
            for (number, event) in (1...3).flatMap({ number in ["shown", "opened"].map { (number, $0) } }) {
                let answer = try await Self.report(Self.receipt(job.notification, event), by: shop, of: installation(number))
                #expect(Self.result(answer) == ["1", "0"])
            }
            #expect(try await running.texts("version", version) == before)
            #expect(try await counts() == ["0 0 0"])
            let counter = DeviceReceiptCounter(pool: running.pool, logger: Logger(label: "test"))
            let other = DeviceReceiptCounter(pool: running.pool, logger: Logger(label: "test"))
            try await Self.add(counter)
            #expect(try await counts() == ["3 3 0"])
            #expect(try await other.step(nil) == nil, "one process at a time")
            // The first one dies.
            try await running.execute("UPDATE leases SET free_from = now() WHERE name = 'events_device_receipts_counts'")
            try await Self.add(other)
            #expect(try await counts() == ["3 3 0"])
            let free: PostgresQuery = "UPDATE leases SET free_from = now() WHERE name = 'events_device_receipts_counts'"
            try await running.execute(free)
            let known = try await counter.step(nil)
            var stale: DeviceReceiptCounter.Reader = try #require(known)
            try await running.execute(free)
            #expect(Self.result(try await Self.report(Self.receipt(job.notification, "dismissed"), by: shop)) == ["1", "0"])
            try await Self.add(other)
            #expect(try await counts() == ["3 3 1"])
            // A process that stood still meanwhile has the lease again.
            try await running.execute(free)
            stale.renewed = .now - .seconds(3600)
            let frozen = stale
            await #expect(throws: LeaseLost.self) {
                var reader: DeviceReceiptCounter.Reader? = frozen
                for _ in 1...1000 { reader = try await counter.step(reader) }
            }
            #expect(try await counts() == ["3 3 1"])
        }
    }

    @Test("A receipt that has its number and is not written yet is counted, although receipts of higher numbers are committed meanwhile")
    func numberBeforeRow() async throws {
        try await RunningService.run(.init(without: { $0 is DeviceReceiptCounter })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            try await running.sending(job.notification, shop)
            let app = try await running.app().id
            @Sendable func take(_ event: DeviceReceipt.Event) async throws {
                let receipt = DeviceReceipt(
                    job: JobID(notification: job.notification, number: 0), event: event, at: UnixTime.milliseconds())
                let report = DeviceReceiptStore.Report(app: app, installation: installation(1), ownerEpoch: 1, receipts: [receipt])
                let results = try await running.pool.transaction { session in try DeviceReceiptStore(session: session).count([report]) }
                #expect(results == [[.counted]])
            }
            // A sequence's first number gives the transaction its id. The 31 that follow do not.
            try await take(.opened)
            for statement in [
                """
                CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM pg_advisory_xact_lock(4711);
                    RETURN NEW;
                END $$
                """, "CREATE TRIGGER stop BEFORE INSERT ON device_receipts FOR EACH ROW WHEN (NEW.event = 'shown') EXECUTE FUNCTION stop()",
            ] {
                try await running.pool.session { session in try session.simple(statement) }
            }
            let counter = DeviceReceiptCounter(pool: running.pool, logger: Logger(label: "test"))
            let (stopped, reader) = try await running.holding("SELECT pg_advisory_xact_lock(4711)") {
                let stopped = Task { try await take(.shown) }
                _ = try await eventually { () -> Bool? in
                    let waiting = try await running.count(
                        """
                        SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted
                            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                        """)
                    return waiting > 0 ? true : nil
                }
                try await take(.dismissed)
                var reader: DeviceReceiptCounter.Reader?
                for _ in 1...200 { reader = try await counter.step(reader) }
                return (stopped, reader)
            }
            try await stopped.value
            try await Self.add(counter, from: reader)
            #expect(try await Self.counts(job.notification, running) == ["1 1 1"])
        }
    }

    /// Adds all receipts, and tries what was put aside.
    private static func add(_ counter: DeviceReceiptCounter, from start: DeviceReceiptCounter.Reader? = nil) async throws {
        var reader = start
        // The transactions of a moment ago have to end.
        while reader.map({ $0.log.position < $0.log.last }) ?? true {
            let next = try await counter.step(reader)
            let known: DeviceReceiptCounter.Reader = try #require(next)
            reader = known
        }
    }

    private static func counts(_ notification: PushID, _ running: RunningService) async throws -> [String] {
        try await running.texts(
            "counts", "SELECT concat_ws(' ', shown, opened, dismissed) AS counts FROM notifications WHERE id = \(notification)")
    }

    /// Of two apps: the first one's notification refuses its counts.
    /// - Parameter meanwhile: Whether receipts that come meanwhile can be read. While a transaction holds a row, no log is read past its
    ///   begin.
    private static func refusing(
        meanwhile: Bool, _ refuse: @Sendable (RunningService, PushID, _ body: @Sendable () async throws -> Void) async throws -> Void
    ) async throws {
        try await RunningService.run(.init(without: { $0 is DeviceReceiptCounter })) { running in
            let shop = try await running.client.makeApp()
            let other = try await running.client.makeApp("other")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await other.register(installation(2), user: "ada", token: token(2), app: "other")
            let refused = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: asked).notification
            let taken = try #require(
                try await other.send(#"{"user":"ada"}"#, app: "other", more: asked).json.text("id").flatMap { PushID($0) })
            try await running.allPublished()
            let counter = DeviceReceiptCounter(pool: running.pool, logger: Logger(label: "test"))
            @Sendable func report(_ event: String) async throws {
                #expect(result(try await Self.report(receipt(refused, event), by: shop)) == ["1", "0"])
                let path = "/v1/apps/other/installations/\(installation(2))/receipts"
                #expect(result(try await other.post(path, #"{"receipts":[\#(receipt(taken, event))]}"#)) == ["1", "0"])
            }
            try await report("shown")
            // From here on these receipts wait for older transactions alone.
            let reader = try await counter.step(nil)
            try await refuse(running, refused) {
                try await add(counter, from: reader)
                #expect(try await counts(taken, running) == ["1 0 0"])
                #expect(counter.waitingCount == 1)
                guard meanwhile else { return }
                // It joins what waits.
                try await report("opened")
                try await add(counter)
                #expect(try await counts(taken, running) == ["1 1 0"])
                #expect(try await running.count("SELECT (shown + opened)::bigint AS count FROM counts_to_add") == 2)
            }
            #expect(try await counts(refused, running) == ["0 0 0"])
            for _ in 1...2 {
                try await add(counter)
                for id in [refused, taken] { #expect(try await counts(id, running) == [meanwhile ? "1 1 0" : "1 0 0"]) }
            }
            #expect(counter.waitingCount == 0)
        }
    }

    @Test("A locked notification keeps no other's counts waiting, and gets its own, once, when it is free") func lockedCounts() async throws
    {
        try await Self.refusing(meanwhile: false) { running, id, body in
            try await running.holding("SELECT FROM notifications WHERE id = \(id) FOR UPDATE", body)
        }
    }

    @Test("A damaged notification keeps no other's counts waiting, and gets its own, once, when it is mended") func damagedCounts()
        async throws
    {
        try await Self.refusing(meanwhile: true) { running, id, body in
            for statement in [
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    RAISE EXCEPTION 'a damaged page' USING ERRCODE = 'XX001';
                END $$
                """, "CREATE TRIGGER refuse BEFORE UPDATE ON notifications FOR EACH ROW WHEN (OLD.id = '\(id)') EXECUTE FUNCTION refuse()",
            ] {
                try await running.pool.session { session in try session.simple(statement) }
            }
            try await body()
            try await running.execute("DROP TRIGGER refuse ON notifications")
        }
    }

    @Test("If a user is erased, the counts of what the user's devices reported stay, whether they were added before or not")
    func erasedCounts() async throws {
        try await RunningService.run(.init(without: { $0 is DeviceReceiptCounter })) { running in
            let shop = try await running.client.makeApp()
            for (number, user) in ["ada", "grace", "eve"].enumerated() {
                try await shop.register(installation(number + 1), user: user, token: token(number + 1))
            }
            let job = try await running.jobs(.soon) { signal in
                #expect(try await shop.send(#"{"users":["ada","grace","eve"]}"#, more: Self.asked).status == 202)
                return try PushJob(decoding: try await signal.next().body)
            }
            try await running.allPublished()
            let counter = DeviceReceiptCounter(pool: running.pool, logger: Logger(label: "test"))
            for number in 1...2 {
                let answer = try await Self.report(Self.receipt(job.notification), by: shop, of: installation(number))
                #expect(Self.result(answer) == ["1", "0"])
                if number == 1 { try await Self.add(counter) }
            }
            #expect(try await Self.counts(job.notification, running) == ["1 0 0"])
            for user in ["ada", "grace"] { #expect(try await running.client.erase(user).status == 200) }
            #expect(try await running.count("SELECT count(*) FROM device_receipts") == 0)
            try await Self.add(counter)
            #expect(try await Self.counts(job.notification, running) == ["2 0 0"])
        }
    }

    @Test("A status without device receipts says nothing of them") func notAsked() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            #expect(try await shop.status(job.notification.description)["device_receipts"] == nil)
        }
    }

    @Test("A report and an erasure do not pass each other: a receipt is written before the erasure looks for receipts, or not at all")
    func erasedMeanwhile() async throws {
        try await RunningService.withDevices { running, shop in
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            try await running.sending(job.notification, shop)
            let phone = try await shop.device(user: "ada")
            // As an erasure does when it has deleted tokens.
            let report = try await running.holding(ErasureBarrier.wait(for: try await running.app())) {
                let report = Task { Self.result(try await Self.report(Self.receipt(job.notification), by: phone)) }
                let doesWait = try await eventually { () -> Bool? in
                    if try await running.count("SELECT count(*) FROM device_receipts") > 0 { return false }
                    let waiting = try await running.count(
                        """
                        SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                        """)
                    return waiting > 0 ? true : nil
                }
                #expect(doesWait)
                return report
            }
            #expect(try await report.value == ["1", "0"])
        }
    }

    @Test("A receipt that a user reports who leaves meanwhile is not stored as the next user's") func leavingMeanwhile() async throws {
        try await RunningService.withDevices { running, shop in
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            try await running.sending(job.notification, shop)
            let phone = try await shop.device(user: "ada")
            let report = try await running.holding(ErasureBarrier.wait(for: try await running.app())) {
                let report = Task { Self.result(try await Self.report(Self.receipt(job.notification), by: phone)) }
                // The owner is checked, and the count waits.
                _ = try await eventually { () -> Bool? in
                    let waiting = try await running.count(
                        """
                        SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                        """)
                    return waiting > 0 ? true : nil
                }
                try await shop.register(installation(1), user: "grace", token: token(1))
                return report
            }
            #expect(try await report.value == ["0", "0", "0 unknown_delivery"])
            #expect(try await running.count("SELECT count(*) FROM device_receipts") == 0)
        }
    }

    @Test("A receipt of what was not sent to the installation is refused, and the others count") func forged() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "grace", token: token(2))
            let own = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            let foreign = try await running.sendAndTake(#"{"user":"grace"}"#, with: shop, more: Self.asked)
            let notAsked = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let other = try await running.client.makeApp("other")
            #expect(
                try await other.put(
                    "/v1/apps/other/installations/\(installation(1))", #"{"user":"ada","tokens":[{"token":"\#(token(1))"}]}"#
                ).status == 201)
            try await running.allPublished()
            let answer = try await Self.report(
                Self.receipt(foreign.notification), Self.receipt(notAsked.notification), Self.receipt(own.notification, job: 1),
                Self.receipt(.random()), Self.receipt(own.notification), by: shop)
            #expect(Self.result(answer) == ["1", "0"] + (0...3).map { "\($0) unknown_delivery" })
            let elsewhere = try await other.post(
                "/v1/apps/other/installations/\(installation(1))/receipts", #"{"receipts":[\#(Self.receipt(own.notification))]}"#)
            #expect(Self.result(elsewhere) == ["0", "0", "0 unknown_delivery"])
            #expect(try await running.count("SELECT count(*) FROM device_receipts") == 1)
        }
    }

    @Test("A receipt of a job that was not sent, or was sent long ago, is refused") func unsentAndLate() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            try await running.allPublished()
            try await running.execute("UPDATE jobs SET published_at = NULL, free_from = now() + interval '1 day'")
            #expect(Self.result(try await Self.report(Self.receipt(job.notification), by: shop)) == ["0", "0", "0 unknown_delivery"])
            try await running.execute("UPDATE jobs SET published_at = now() - interval '30 days 1 minute'")
            #expect(Self.result(try await Self.report(Self.receipt(job.notification), by: shop)) == ["0", "0", "0 too_late"])
            try await running.execute("UPDATE jobs SET published_at = now() - interval '29 days'")
            #expect(Self.result(try await Self.report(Self.receipt(job.notification), by: shop)) == ["1", "0"])
        }
    }

    @Test("The time of an event lies between its sending and the report, whatever the device's clock says") func clock() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            try await running.allPublished()
            try await running.execute("UPDATE jobs SET published_at = now() - interval '1 hour'")
            let answer = try await Self.report(
                Self.receipt(job.notification, "shown", at: "1970-01-02T00:00:00Z"),
                Self.receipt(job.notification, "opened", at: "2099-01-01T00:00:00+01:00"), by: shop)
            #expect(Self.result(answer) == ["2", "0"])
            let kept: PostgresQuery = """
                SELECT count(*) FROM device_receipts r JOIN jobs j ON j.notification = r.notification
                WHERE r.event = 'shown' AND r.at = j.published_at OR r.event = 'opened' AND r.at > j.published_at AND r.at <= now()
                """
            #expect(try await running.count(kept) == 2)
        }
    }

    @Test("A device whose user changed reports nothing, and an expired credential neither") func credentials() async throws {
        try await RunningService.withDevices { running, shop in
            try await shop.register(installation(1), user: "ada", token: token(1))
            let phone = try await shop.device(user: "ada")
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            try await running.sending(job.notification, shop)
            let keys = try #require(DeviceCredentialKeys(RunningService.deviceKey))
            let old = DeviceCredentialClaims(
                app: try #require(AppSlug("shop")), installation: installation(1), user: "ada", ownerEpoch: 2,
                issuedAt: UnixTime.milliseconds() * 1000, expiresAt: UnixTime.milliseconds() - 1)
            let late = try await Self.report(Self.receipt(job.notification), by: shop.with(key: keys.text(old)))
            #expect(late.status == 401 && late.code == "credential_expired")
            try await shop.register(installation(1), user: "eve", token: token(1))
            let revoked = try await Self.report(Self.receipt(job.notification), by: phone)
            #expect(revoked.status == 403 && revoked.code == "credential_revoked")
            #expect(try await running.count("SELECT count(*) FROM device_receipts") == 0)
        }
    }

    @Test("Of two tokens that one installation has in a job, the live one's delivery gets the receipt") func twoTokens() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1), environment: "sandbox")
            let path = "/v1/apps/shop/installations/\(installation(1))"
            let both = #"{"user":"ada","tokens":[{"token":"\#(token(1))","environment":"sandbox"},{"token":"\#(token(2))"}]}"#
            #expect(try await shop.put(path, both).status == 200)
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            #expect(job.deliveries.count == 2)
            try await running.sending(job.notification, shop)
            // The first of them is retired.
            let (first, second) = (job.deliveries[0], job.deliveries[1])
            let environment = first.environment == .production ? "sandbox" : "production"
            let one = #"{"user":"ada","tokens":[{"token":"\#(second.token.hex)","environment":"\#(environment)"}]}"#
            #expect(try await shop.put(path, one).status == 200)
            #expect(Self.result(try await Self.report(Self.receipt(job.notification), by: shop)) == ["1", "0"])
            #expect(try await running.count("SELECT count(*) FROM device_receipts WHERE position = 1") == 1)
        }
    }

    @Test("A list with a fault counts nothing, and the answer names each fault") func badInput() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let answer = try await Self.report(
                #"{"notification":"x","job":-1,"event":"read","at":"now"}"#, #"{"extra":1}"#, by: shop)
            #expect(answer.status == 400)
            #expect(
                Set(answer.problems) == [
                    "/receipts/0/notification invalid_id", "/receipts/0/job out_of_range", "/receipts/0/event unsupported_value",
                    "/receipts/0/at invalid_time", "/receipts/1/notification missing", "/receipts/1/job missing",
                    "/receipts/1/event missing", "/receipts/1/at missing", "/receipts/1/extra unknown_field",
                ], "\(answer.problems)")
            #expect(try await shop.post("/v1/apps/shop/installations/\(installation(1))/receipts", #"{"receipts":[]}"#).status == 200)
        }
    }

    @Test("The same receipts from many requests at once count once") func race() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            try await running.sending(job.notification, shop)
            let receipts = ["shown", "opened", "dismissed"].map { Self.receipt(job.notification, $0) }.joined(separator: ",")
            let counted = try await withThrowingTaskGroup(of: Int64.self) { group in
                for _ in 1...20 {
                    group.addTask { try await Self.report(receipts, by: shop).json.number("counted") ?? -1 }
                }
                return try await group.reduce(0, +)
            }
            #expect(counted == 3)
            #expect(try await running.count("SELECT count(*) FROM device_receipts") == 3)
        }
    }

    // MARK: Afterwards

    @Test("A replayed job names the job whose deliveries it has") func replayed() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for (number, locale) in [(1, "de"), (2, "en")] {
                let body = #"{"user":"u\#(number)","tokens":[{"token":"\#(token(number))"}],"locale":"\#(locale)"}"#
                #expect(try await shop.put("/v1/apps/shop/installations/\(installation(number))", body).status == 201)
            }
            try await running.jobs(.bulk) { signal in
                let more = Self.asked + #","locales":{"de":{"payload":{"aps":{"alert":"hallo"}}}}"#
                #expect(try await shop.send(#"{"all":true}"#, more: more).status == 202)
                for _ in 1...2 { try await DeadLetterTests.giveUp(PushJob(decoding: try await signal.next().body), running) }
                #expect(try await DeadLetterTests.replay(running)["deliveries"]?.number("sent") == 2)
                var numbers: Set<Int> = []
                for _ in 1...2 {
                    let job = try PushJob(decoding: try await signal.next().body)
                    let number = try #require(try JSONValue.parse(job.payload)["push-receipt"]?["job"]?.integerValue)
                    #expect(job.deliveries.map { DeliveryNames.place(of: $0.id).job } == [Int(number)])
                    numbers.insert(Int(number))
                }
                #expect(numbers == [0, 1])
            }
        }
    }

    @Test("An erasure removes what the user's devices reported, and no other user's") func erasure() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "grace", token: token(2))
            let job = try await running.jobs(.soon) { signal in
                #expect(try await shop.send(#"{"users":["ada","grace"]}"#, more: Self.asked).status == 202)
                return try PushJob(decoding: try await signal.next().body)
            }
            try await running.allPublished()
            for number in 1...2 {
                #expect(
                    Self.result(try await Self.report(Self.receipt(job.notification), by: shop, of: installation(number))) == ["1", "0"])
            }
            // Grace signs in on Ada's device and reports there too.
            try await shop.register(installation(1), user: "grace", token: token(1))
            #expect(Self.result(try await Self.report(Self.receipt(job.notification, "opened"), by: shop)) == ["1", "0"])
            // What was sent to Ada by name goes as a whole, whichever user's device reported it.
            let own = try await running.sendAndTake(#"{"user":"grace"}"#, with: shop, more: Self.asked)
            try await running.sending(own.notification, shop)
            try await running.execute("UPDATE notifications SET target_user = 'ada' WHERE id = \(own.notification)")
            #expect(Self.result(try await Self.report(Self.receipt(own.notification), by: shop)) == ["1", "0"])
            #expect(try await running.client.erase("ada").status == 200)
            let left: PostgresQuery = "SELECT count(*) FROM device_receipts WHERE event = 'shown' AND installation = \(installation(1))"
            #expect(try await running.count(left) == 0)
            #expect(try await running.count("SELECT count(*) FROM device_receipts") == 2)
            #expect(try await running.client.erase("grace").status == 200)
            #expect(try await running.count("SELECT count(*) FROM device_receipts") == 0)
        }
    }

    @Test("A user's export says what the devices reported") func export() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: Self.asked)
            try await running.sending(job.notification, shop)
            _ = try await Self.report(Self.receipt(job.notification, "dismissed"), by: shop)
            let export = try await running.client.post("/v1/apps/shop/users/ada/export").json
            let delivery = export["notifications"]?.arrayValue?.first?["deliveries"]?.arrayValue?.first
            #expect(delivery?.text("dismissed_at") != nil && delivery?.text("shown_at") == nil)
        }
    }
}
