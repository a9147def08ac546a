import Postgres
import PushModel
import StrictJSON
import Testing

@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceOutcomes
@testable import TokenServiceRegistry
@testable import TokenServiceSending

/// Any two of these operations, of which one stops between its statements: the end is as if one had come after the other.
@Suite("Two transactions at the same moment end as one after the other", .timeLimit(.minutes(10)))
struct InterleavedPairTests {
    /// Ada's phone and tablet. Her activity `ride` is on the phone. One update of it is under way, and a second one may wait. An alert to
    /// her is accepted and not published, and a list is not fanned out. A hold on the app is in force. An imported installation, the fifth,
    /// has two tokens and a tag.
    struct World: Sendable {
        let app: App
        let number: Int
        let update: PushID
        let waiting: PushID
        let alert: PushID
        let list: PushID

        func installation(_ place: Int) -> PushID { PushID(high: 0x4000, low: 0x8000_0000_0000_0000 | UInt64(number * 16 + place)) }

        func token(_ place: Int) throws -> DeviceToken {
            try #require(DeviceToken(hex: String(repeating: "0", count: 56) + String(10_000_000 + number * 100 + place)))
        }
    }

    struct Operation: Sendable, CustomTestStringConvertible {
        let name: String
        let run: @Sendable (World, PostgresPool) async throws -> Void
        var testDescription: String { name }
    }

    // MARK: The operations

    private static func report(_ place: Int, token: Int?, _ name: String) -> Operation {
        Operation(name: name) { world, pool in
            let named = try token.map {
                RegisteredToken(token: try world.token($0), environment: .production, purpose: .activity(id: "ride"))
            }
            let report = ActivityReport(installation: world.installation(place), id: "ride", token: named, expectedOwner: .anyone)
            try await commit(RegistryRequest(app: world.app, report), pool)
        }
    }

    private static func commit(_ request: RegistryRequest, _ pool: PostgresPool) async throws {
        let results = await InstallationRegistration.Transactions(pool: pool).commit([request])
        _ = try results[0].get()
    }

    private static func signOut(_ place: Int, _ name: String) -> Operation {
        Operation(name: name) { world, pool in
            try await pool.registryTransaction { session in
                _ = try RegistryStore(session: session).commit(
                    .signOut(.installation(world.installation(place)), expecting: .anyone), of: world.app)
            }
        }
    }

    private static func accept(_ event: String, _ eta: Int, _ name: String) -> Operation {
        Operation(name: name) { world, pool in
            let content = #"{"event":"\#(event)","content_state":{"eta":\#(eta)},"timestamp":"2099-01-01T00:00:0\#(eta)Z"}"#
            try await insert(#"{"to":{"user":"ada","activity":"ride"},"content":\#(content)}"#, id: nil, world.app, pool)
        }
    }

    private static func insert(_ body: String, id: PushID?, _ app: App, _ pool: PostgresPool) async throws {
        let now = UnixTime.milliseconds()
        let request = try #require(try ParsedRequest(body, now: now).request)
        let notification = Notification(
            id: id ?? .timeOrdered(milliseconds: now), app: app.slug, topic: app.bundleID, request: request, acceptedAt: now,
            traceparent: "")
        let item = NotificationStore.Item(notification: notification, app: app, idempotency: nil, leaseSeconds: 30)
        try await pool.transaction { session in _ = try NotificationStore(session: session).insert([item]) }
    }

    private static func outcome(
        of notification: @escaping @Sendable (World) -> PushID, _ outcome: OutcomeClass, isFinal: Bool = true, _ name: String
    ) -> Operation {
        Operation(name: name) { world, pool in
            let id = notification(world)
            let delivery = OutcomeEvent.Delivery(
                id: DeliveryNames(id).id(job: 0, position: 0), notification: id, installation: world.installation(1), attempt: 1,
                ownerEpoch: 1,
                status: isFinal ? 200 : 429, reason: isFinal ? nil : "TooManyRequests", sentAt: UnixTime.milliseconds(),
                retryAt: isFinal ? nil : UnixTime.milliseconds() + 600_000)
            let event = OutcomeEvent(
                id: .random(), source: "/test", time: UnixTime.milliseconds(), app: world.app.slug, outcome: outcome, isFinal: isFinal,
                deliveries: [delivery])
            _ = try await OutcomeApplication(pool: pool).apply(OutcomeBatch([event]))
        }
    }

    private static func cancel(_ notification: @escaping @Sendable (World) -> PushID, _ name: String) -> Operation {
        Operation(name: name) { world, pool in
            let id = notification(world)
            _ = try await pool.transaction { session in try CancellationStore(session: session, app: world.app).cancel(id) }
        }
    }

    /// As the relay does with what it has claimed.
    private static let putAside = Operation(name: "put aside") { world, pool in
        try await pool.transaction { session in
            let holds = HoldOutbox(session: session)
            let inForce = try holds.lockInForce()
            try session.execute(
                """
                UPDATE jobs SET free_from = now() + interval '30 seconds', held_by = NULL
                WHERE notification = \(world.alert) AND published_at IS NULL
                """)
            try session.execute(
                """
                UPDATE fan_outs SET free_from = now() + interval '30 seconds'
                WHERE notification = \(world.list) AND free_from IS NOT NULL
                """)
            _ = try holds.putAside(jobs: [JobID(notification: world.alert, number: 0)], under: inForce)
            _ = try holds.putAside(fanOuts: [world.list], under: inForce)
        }
    }

    private static let fanOut = Operation(name: "fan out") { world, pool in
        let now = UnixTime.milliseconds()
        do {
            try await pool.transaction { session in
                let store = FanOutStore(session: session)
                guard let audience = try store.fanOut(of: world.list) else { return }
                let page = try store.page(of: audience, names: DeliveryNames(world.list), now: now)
                try store.commit(page, of: audience, leaseSeconds: 30, now: now)
            }
        } catch is FanOutTakenOver {}
    }

    private static let signInOther = Operation(name: "another user on the phone") { world, pool in
        let token = RegisteredToken(token: try world.token(1), environment: .production, purpose: .alert)
        let registration = Registration(
            installation: world.installation(1), user: "eve", tokens: [token], profile: InstallationProfile(), expectedOwner: .anyone)
        try await commit(RegistryRequest(app: world.app, registration), pool)
    }

    private static func take(_ token: Int, _ purpose: Purpose, by place: Int, _ name: String) -> Operation {
        Operation(name: name) { world, pool in
            let token = RegisteredToken(token: try world.token(token), environment: .production, purpose: purpose)
            let registration = Registration(
                installation: world.installation(place), user: nil, tokens: [token], profile: InstallationProfile(), expectedOwner: .anyone)
            try await commit(RegistryRequest(app: world.app, registration), pool)
        }
    }

    static let ofActivities = [
        report(2, token: 12, "the tablet reports"), report(1, token: nil, "the phone says it is over"), signOut(1, "the phone signs out"),
        signOut(2, "the tablet signs out"), accept("update", 3, "update"), accept("end", 4, "end"),
        outcome(of: \.update, .accepted, "the outcome"),
    ]
    static let ofJobs = [
        putAside, cancel(\.alert, "cancel the alert"), outcome(of: \.alert, .accepted, "the alert's outcome"),
        cancel(\.list, "cancel the list"), fanOut, signInOther,
    ]

    /// If no other update waits, a copy of the one that is under way goes to the tablet.
    static let ofCopies = [
        report(2, token: 12, "the tablet reports"), cancel(\.update, "cancel the update"), outcome(of: \.update, .accepted, "the outcome"),
    ]

    /// The second one gets the tag.
    static let ofStandIns = [take(21, .alert, by: 6, "one takes a token"), take(22, .voip, by: 7, "another takes the other token")]

    // MARK: The tests

    @Test("The activities of a user who has two devices", arguments: ofActivities) func activities(first: Operation) async throws {
        try await Self.check(first, with: Self.ofActivities)
    }

    @Test("The jobs and fan-outs of an app that is held", arguments: ofJobs) func jobs(first: Operation) async throws {
        try await Self.check(first, with: Self.ofJobs)
    }

    @Test("An update that goes again to another device", arguments: ofCopies) func copies(first: Operation) async throws {
        try await Self.check(first, with: Self.ofCopies, doesOneWait: false)
    }

    @Test("The tags of an imported installation", arguments: ofStandIns) func standIns(first: Operation) async throws {
        try await Self.check(first, with: Self.ofStandIns)
    }

    private static func check(_ first: Operation, with others: [Operation], doesOneWait: Bool = true) async throws {
        try await InterleavedPairs.with { pairs in
            var number = 0
            func world() async throws -> World {
                number += 1
                return try await make(number, doesOneWait: doesOneWait, pairs.pool)
            }
            for second in others {
                var serial: [[String]] = []
                for (one, other) in [(first, second), (second, first)] {
                    let world = try await world()
                    try await pairs.run({ try await one.run(world, $0) }, then: { try await other.run(world, $0) })
                    serial.append(try await state(of: world, pairs.pool))
                }
                var place = 1
                while true {
                    let world = try await world()
                    let isStopped = try await pairs.run(
                        { try await first.run(world, $0) }, stoppedAt: place, meanwhile: { try await second.run(world, $0) })
                    let found = try await state(of: world, pairs.pool)
                    if !serial.contains(found) {
                        let difference = found.filter { !serial[0].contains($0) }
                        Issue.record(
                            """
                            \(first.name), stopped before its write \(place), and \(second.name): \(difference.joined(separator: "; "))
                            one after the other: \(serial.map { $0.filter { !found.contains($0) }.joined(separator: "; ") })
                            """)
                    }
                    guard isStopped else { break }
                    place += 1
                }
                #expect(place > 1, "\(first.name) writes nothing")
            }
        }
    }

    // MARK: The world

    private static func make(_ number: Int, doesOneWait: Bool, _ pool: PostgresPool) async throws -> World {
        let slug = "app-\(number)"
        try await pool.session { session in
            _ = try session.execute(
                """
                INSERT INTO apps (slug, bundle_id, device_policy, environments) VALUES (\(slug), 'com.example.app', 'multi', '{production}')
                """)
        }
        let app = try #require(try await AppStore(pool: pool).all().first { $0.slug.text == slug })
        let ids = (1...4).map { _ in PushID.timeOrdered(milliseconds: UnixTime.milliseconds()) }
        let world = World(
            app: app, number: number, update: ids[0], waiting: ids[1], alert: ids[2], list: ids[3])
        try await pool.session { session in
            for place in 1...2 {
                let token = try world.token(place)
                try session.execute(
                    """
                    WITH made AS (
                        INSERT INTO installations (app_id, id, owner, registered_at, created_at)
                        VALUES (\(app.id), \(world.installation(place)), 'ada', now(), now()) RETURNING ordinal
                    )
                    INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at, proven_at)
                    SELECT \(app.id), 'production', 'alert', \(token.bytes), \(world.installation(place)), ordinal, now(), now() FROM made
                    """)
            }
        }
        let (alert, voip) = (try world.token(21), try world.token(22))
        try await pool.session { session in
            _ = try session.execute(
                """
                WITH made AS (
                    INSERT INTO installations (app_id, id, tags, is_imported, registered_at, created_at)
                    VALUES (\(app.id), \(world.installation(5)), '{vip}', true, now(), now()) RETURNING ordinal
                )
                INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at)
                SELECT \(app.id), 'production', e.purpose, e.token, \(world.installation(5)), ordinal, now()
                FROM made, (VALUES ('alert', \(alert.bytes)::bytea), ('voip', \(voip.bytes)::bytea)) AS e (purpose, token)
                """)
        }
        try await report(1, token: 11, "the phone reports").run(world, pool)
        let updates = doesOneWait ? [world.update, world.waiting] : [world.update]
        for (index, id) in updates.enumerated() {
            let content = #"{"event":"update","content_state":{"eta":\#(index + 1)},"timestamp":"2099-01-01T00:00:0\#(index + 1)Z"}"#
            try await insert(#"{"to":{"user":"ada","activity":"ride"},"content":\#(content)}"#, id: id, app, pool)
        }
        try await insert(#"{"to":{"installation":"\#(world.installation(1))"},"content":{"alert":"a"}}"#, id: world.alert, app, pool)
        try await insert(#"{"to":{"users":["ada","bob"]},"content":{"alert":"l"}}"#, id: world.list, app, pool)
        try await pool.session { session in
            _ = try session.pipeline([
                "UPDATE jobs SET published_at = now() WHERE notification = \(world.update)",
                "INSERT INTO holds (id, app_id, reason, set_at, set_by) VALUES (\(PushID.random()), \(app.id), 'r', now(), 'test')",
            ])
        }
        return world
    }

    /// Without names and moments, so that two worlds can be compared.
    private static func state(of world: World, _ pool: PostgresPool) async throws -> [String] {
        // As the relay does in the end.
        while try await pool.transaction({ session in try CancellationOutbox(session: session).hastenAll(limit: 100) }) {}
        let app = world.app.id
        return try await pool.session { session in
            let lines: [String] = try session.execute(
                """
                WITH named AS (
                    SELECT n.*, concat_ws(' ', n.push_type, CASE WHEN n.copy_of IS NOT NULL THEN 'copy' END,
                        convert_from(n.payload, 'UTF8')::json #>> '{aps,alert}',
                        convert_from(n.payload, 'UTF8')::json #>> '{aps,event}', convert_from(n.payload,
                            'UTF8')::json #>> '{aps,content-state,eta}',
                        n.target_user, right(n.target_installation::text, 1)) AS name
                    FROM notifications n WHERE n.app_id = \(app)
                )
                SELECT concat_ws(' ', 'activity', coalesce(owner, right(installation::text, 1)), ended_at IS NOT NULL,
                    reported_at IS NOT NULL, is_waiting, is_retrying,
                    'newest', (SELECT name FROM named WHERE id = newest), 'sending', (SELECT name FROM named WHERE id = sending)) AS line
                FROM activities WHERE app_id = \(app)
                UNION ALL
                SELECT concat_ws(' ', 'notification', n.name, n.state, n.total, n.pending, n.completed_at IS NOT NULL,
                    f.ended_at IS NOT NULL,
                    f.held_by IS NOT NULL, CASE WHEN f.free_from IS NULL THEN 'never' WHEN f.free_from <= now() THEN 'now' ELSE 'later' END,
                    (SELECT c.reason FROM cancellations c WHERE c.notification = n.id))
                FROM named n LEFT JOIN fan_outs f ON f.notification = n.id
                UNION ALL
                SELECT concat_ws(' ', 'job', n.name, j.number, j.ended::text, j.published_at IS NOT NULL, j.held_by IS NOT NULL,
                    CASE WHEN j.free_from <= now() THEN 'now' ELSE 'later' END,
                    (SELECT string_agg(concat_ws(' ', right(t.installation::text, 1), t.purpose, right(encode(t.token, 'hex'), 1)), ', '
                        ORDER BY t.ordinal)
                        FROM generate_series(0, octet_length(j.members) / 8 - 1) AS place
                            JOIN tokens t ON t.id = member_at(j.members, place)))
                FROM named n JOIN jobs j ON j.notification = n.id
                UNION ALL
                SELECT concat_ws(' ', 'receipt', n.name, r.class, r.last_class) FROM named n JOIN receipts r ON r.notification = n.id
                UNION ALL
                SELECT concat_ws(' ', 'installation', right(id::text, 1), owner, owner_epoch, signed_out_reason, tags::text)
                FROM installations WHERE app_id = \(app)
                UNION ALL
                SELECT concat_ws(' ', 'token', right(installation::text, 1), purpose, state, retired_reason) FROM tokens
                    WHERE app_id = \(app)
                UNION ALL
                SELECT concat_ws(' ', 'fence', right(installation::text, 1), epochs_below) FROM fences WHERE app_id = \(app)
                """
            ).column("line")
            return lines.sorted()
        }
    }
}
