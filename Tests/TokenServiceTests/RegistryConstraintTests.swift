import Postgres
import PushModel
import Testing
import TokenServiceUpkeep

@Suite("What must never be, the database itself refuses", .serialized, .timeLimit(.minutes(5)))
struct RegistryConstraintTests {
    /// Two installations of two users with a token each, a third token that is retired, and a delivery; then every violation, tried with
    /// bare SQL, as a person with the database's password could.
    @Test("The database refuses every violation") func everyViolationIsRefused() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(3))
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "grace", token: token(2))
            #expect(try await shop.send(#"{"user":"ada"}"#).status == 202)
            let before = try await Self.fingerprint(running)
            for violation in Violation.all {
                do {
                    try await running.execute(violation.statement)
                    Issue.record("the database accepted \(violation.name)")
                } catch let error as PostgresError {
                    #expect(error.sqlState?.classCode == "23", "\(violation.name): \(error)")
                    // A partition's constraint has the period in its name.
                    let named = error.constraint?.replacing(/_[0-9]{8}_[0-9]{4}/, with: "")
                    if let constraint = violation.constraint { #expect(named == constraint, "\(violation.name)") }
                }
            }
            #expect(try await Self.fingerprint(running) == before)
        }
    }

    /// An owner is one column of a row that its key makes unique; so is a token's installation, by its id and by its ordinal, which a
    /// foreign key holds together. Nothing else names either.
    @Test("By construction an installation has one owner and a token one installation")
    func ownerAndInstallationAreSingleByConstruction() async throws {
        try await RunningService.run { running in
            let columns = try await running.count(
                """
                SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public'
                    AND (table_name, column_name, data_type) IN (('installations', 'owner', 'text'), ('tokens', 'installation', 'uuid'))
                """)
            #expect(columns == 2)
            let keys = try await running.count(
                """
                SELECT count(*) FROM pg_indexes WHERE schemaname = 'public' AND indexdef LIKE 'CREATE UNIQUE INDEX%' AND (
                    indexdef LIKE '%ON public.installations USING btree (app_id, id)'
                    OR indexdef LIKE '%ON public.installations USING btree (app_id, ordinal, id)'
                    OR indexdef LIKE '%ON public.tokens USING btree (token, app_id, purpose, environment)'
                    OR indexdef LIKE '%ON public.tokens USING btree (app_id, ordinal, purpose, environment) WHERE (state = ''active''%')
                """)
            #expect(keys == 4)
            let references = try await running.count(
                """
                SELECT count(*) FROM pg_constraint WHERE conrelid = 'tokens'::regclass AND convalidated AND pg_get_constraintdef(oid) =
                    'FOREIGN KEY (app_id, ordinal, installation) REFERENCES installations(app_id, ordinal, id)'
                """)
            #expect(references == 1)
        }
    }

    @Test("A notification's jobs and receipts go with it, and no others")
    func removedNotifications() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "grace", token: token(2))
            for user in ["ada", "grace", "grace"] { #expect(try await shop.send(#"{"user":"\#(user)"}"#).status == 202) }
            #expect(try await running.count("SELECT count(*) FROM deliveries") == 3)
            let app = try await running.app()
            try await running.pool.transaction { session in
                let graces: [PushID] = try session.execute("SELECT id FROM notifications WHERE target_user = 'grace'").column("id")
                #expect(try ReceiptRemoval(session: session, app: app).removeBatch(of: graces).notifications == 2)
            }
            #expect(try await running.count("SELECT count(*) FROM deliveries") == 1)
            #expect(
                try await running.count(
                    "SELECT count(*) FROM deliveries d JOIN notifications n ON n.id = d.notification WHERE n.target_user = 'ada'") == 1)
        }
    }

    private static func fingerprint(_ running: RunningService) async throws -> Int64 {
        try await running.number(
            "hash",
            """
            SELECT hashtextextended((SELECT string_agg(t::text, '|' ORDER BY id) FROM tokens t)
                || (SELECT string_agg(i::text, '|' ORDER BY id) FROM installations i)
                || (SELECT string_agg(d.id::text, '|' ORDER BY id) FROM deliveries d), 0) AS hash
            """)
    }
}

/// A statement that would break a rule, and the constraint that stands in its way.
private struct Violation: Sendable {
    let name: String
    let constraint: String?
    let statement: PostgresQuery

    static let all: [Violation] = tokens + installations + deliveries

    private static let tokens = [
        Violation(
            name: "a token that two installations have", constraint: "tokens_once",
            statement: """
                INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at, state, retired_at,
                    retired_reason)
                SELECT t.app_id, environment, purpose, token, i.id, i.ordinal, now(), 'retired', now(), 'removed'
                FROM tokens t JOIN installations i ON i.id <> t.installation
                """),
        Violation(
            name: "two active tokens in one place", constraint: "tokens_one_active",
            statement: "UPDATE tokens SET state = 'active', retired_at = NULL, retired_reason = NULL WHERE state = 'retired'"),
        Violation(
            name: "a token that joins another in its place", constraint: "tokens_one_active",
            statement: "UPDATE tokens SET (installation, ordinal) = (SELECT id, ordinal FROM installations ORDER BY id DESC LIMIT 1)"),
        Violation(
            name: "a token of no installation", constraint: "tokens_of_installations",
            statement: "UPDATE tokens SET installation = gen_random_uuid()"),
        Violation(
            name: "a token of another app's installation", constraint: nil, statement: "UPDATE tokens SET app_id = app_id + 1"),
        Violation(
            name: "a retired token without a reason", constraint: "tokens_check",
            statement: "UPDATE tokens SET state = 'retired' WHERE state = 'active'"),
        Violation(
            name: "an active token with a reason for its end", constraint: "tokens_check",
            statement: "UPDATE tokens SET retired_reason = 'gone' WHERE state = 'active'"),
        Violation(
            name: "an unknown reason", constraint: "tokens_retired_reason_check",
            statement: "UPDATE tokens SET retired_reason = 'mood' WHERE state = 'retired'"),
        Violation(
            name: "an active token in quarantine", constraint: "tokens_in_quarantine",
            statement: "UPDATE tokens SET quarantined_at = now() WHERE state = 'active'"),
        Violation(name: "a third environment", constraint: "tokens_environment_check", statement: "UPDATE tokens SET environment = 'test'"),
        Violation(name: "an unknown purpose", constraint: "tokens_purpose_check", statement: "UPDATE tokens SET purpose = 'mail'"),
        Violation(name: "a token without bytes", constraint: "tokens_token_check", statement: "UPDATE tokens SET token = ''"),
        Violation(
            name: "a token never registered", constraint: nil, statement: "UPDATE tokens SET registered_at = NULL"),
    ]

    private static let installations = [
        Violation(
            name: "an installation twice, with two owners", constraint: "installations_pkey",
            statement: """
                INSERT INTO installations (app_id, id, owner, created_at, registered_at)
                SELECT app_id, id, 'eve', created_at, registered_at FROM installations
                """),
        Violation(
            name: "an epoch below 1", constraint: "installations_owner_epoch_check", statement: "UPDATE installations SET owner_epoch = 0"),
        Violation(
            name: "an owner without a name", constraint: "installations_owner_check", statement: "UPDATE installations SET owner = ''"),
        Violation(
            name: "an owner of what was deregistered", constraint: "installations_check",
            statement: "UPDATE installations SET deregistered_at = now()"),
        Violation(
            name: "an installation of no app", constraint: "installations_app_id_fkey",
            statement: """
                INSERT INTO installations (app_id, id, created_at, registered_at) VALUES (999999, gen_random_uuid(), now(), now())
                """),
        Violation(
            name: "an installation that leaves its tokens behind", constraint: "tokens_of_installations",
            statement: "DELETE FROM installations"),
        Violation(
            name: "a fence of no installation", constraint: "fences_app_id_installation_fkey",
            statement: """
                INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from)
                SELECT id, gen_random_uuid(), 2, now(), now() FROM apps
                """),
        Violation(
            name: "an event that history has no word for", constraint: "installation_history_event_check",
            statement: """
                INSERT INTO installation_history (app_id, installation, at, event) SELECT app_id, id, now(), 'wondered' FROM installations
                """),
    ]

    private static let deliveries = [
        Violation(
            name: "a job twice", constraint: "jobs_pkey",
            statement: """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                SELECT notification, number, app_id, lane, locale, due_at, members, free_from FROM jobs
                """),
        Violation(
            name: "a job without members", constraint: "jobs_members_check", statement: "UPDATE jobs SET members = ''"),
        Violation(
            name: "two receipts of one delivery", constraint: "receipts_pkey",
            statement: """
                INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, updated_at)
                SELECT d.notification, d.number, d.position, d.token_id, d.installation, d.owner_epoch, d.environment, now()
                FROM deliveries d, generate_series(1, 2)
                """),
        Violation(
            name: "a receipt of no place in a job", constraint: "receipts_position_check",
            statement: """
                INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, updated_at)
                SELECT notification, number, 100, token_id, installation, owner_epoch, environment, now() FROM deliveries
                """),
        Violation(
            name: "an unknown outcome", constraint: "receipts_class_check",
            statement: """
                INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, updated_at)
                SELECT notification, number, position, token_id, installation, owner_epoch, environment, 'fine', now() FROM deliveries
                """),
        Violation(
            name: "more pending than there are", constraint: nil, statement: "UPDATE notifications SET pending = total + 1"),
        Violation(
            name: "a notification to a user and an installation", constraint: nil,
            statement: "UPDATE notifications SET target_installation = gen_random_uuid()"),
    ]
}
