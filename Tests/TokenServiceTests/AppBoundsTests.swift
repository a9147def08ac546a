import Postgres
import StatementSources
import TestDatabase
import Testing
import TokenService

/// No key touches another app, by the form of the sources: a store of an app is made with its app, and each of its statements compares the
/// rows that it reads or changes with that app. Types that work for every app at once are listed, each with the reason.
@Suite("Each statement keeps to its app", .timeLimit(.minutes(5)))
struct AppBoundsTests {
    /// The types that work for every app at once. Their statements may begin with rows of any app; what hangs on these rows is compared
    /// with them.
    private static let forEveryApp = [
        "FanOutStore": "fan-out: it makes the jobs of a notification that the relay has claimed",
        "AuditStore": "the operator's trail over every app",
        "BroadcastMember": "the relay: the channels are members of claimed jobs, or are named by app and name",
        "CancellationOutbox": "the relay, and newer notifications that take the place of older ones",
        "ChannelAbsence": "outcomes of broadcasts, which name the channel themselves",
        "ChannelWatch": "metrics",
        "DeadLetterStore": "the operator's dead letters: the broker's queue has those of every app",
        "DeviceReceiptCounts": "the counter of device receipts",
        "DuePlan": "the worker of channels",
        "EventStore": "the feeds of events",
        "HoldOutbox": "the relay",
        "JobStore": "the relay",
        "JobTemplate": "the relay and the operator's replay of dead letters",
        "KeyStore": "the operator's keys, which may be of any app or of none",
        "FenceStore": "the relay",
        "WaitingWorkStore": "the relay",
        "OutcomeStore": "outcomes, which name their deliveries themselves",
        "Retention": "the housekeeping",
        "Sweep": "the housekeeping",
        "VIEW": "a view of the schema: the statement that reads it compares its rows",
        "WebhookQueue": "the feeds of events and the deliveries to webhooks",
    ]

    /// Statements of batches of several apps, and their tokens and notifications that the same transaction has read and locked: an earlier
    /// statement has compared these with the app. The schema's functions get them from a statement that has compared them.
    private static let ofLockedRows = [
        "ActivityReports.lock": "the newest states of activities that are locked",
        "UpdateTargetStore.save": "a notification is only looked at: whether it has deliveries without an outcome",
        "UpdateTargetStore.removeUnreached": "notifications that the batch has accepted",
        "UpdateTargetStore.copy": "the newest states of activities that are locked",
        "NotificationStore.forgetKeys": "notifications of the batch, whose ids are new",
        "RegistryStore.load": "tokens that a statement has found by app",
        "RegistryStore.rivals": "the same",
        "RegistryStore.counting": "the same",
        "RegistryStore.lockEnding": "tokens of the loaded batch",
        "RegistryBatch.insertMoves": "the same",
        "RegistryBatch.new": "the same",
        "RegistryBatch.vacate": "the same",
        "UpdateTargetStore.lockForTurns": "what activities and channels are sending, whose rows are locked",
        "UpdateTargetStore.putBack": "a notification that fan-out has claimed",
        "UpdateTargetStore.release": "the newest states of activities and channels that are locked",
        "moved_since": "a token of an installation that fan-out has found by app",
        "reported_at": "the place of a delivery of such a notification",
    ]

    /// Functions in PL/pgSQL, which AppBounds does not read.
    private static let inPLpgSQL = [
        "attach_partition": "the housekeeping",
        "drop_partition": "the housekeeping",
        "forget_emptiness": "the housekeeping",
        "in_use_until": "the housekeeping",
        "lock_alone": "the housekeeping",
        "make_partition": "the housekeeping",
        "may_be_at_broker": "the jobs of a notification that its statement has just stopped",
        "new_partition": "the housekeeping",
        "report_notification_state": "a trigger: it reads the cancellation of the row that changes, and its event names that row's app",
        "rows_without_period": "the housekeeping",
    ]

    /// `A: B`: A is a service or a part of one, and uses B, which works for every app.
    private static let inServices: Set = [
        "FanOutStore: BroadcastMember", "FanOutStore: JobStore", "FanOutStore: JobTemplate", "ChannelWorker: DuePlan",
        "DeviceReceiptCounter: DeviceReceiptCounts", "DeviceReceiptCounter: EventStore", "EventFeed: EventStore", "EventSink: EventStore",
        "EventSink: WebhookQueue", "FanOut: FanOutStore", "FanOut: CancellationOutbox", "FanOut: WaitingWorkStore",
        "FencePublisher: FenceStore", "Housekeeper: Retention", "JobStore: BroadcastMember", "JobStore: JobTemplate",
        "LaneWaits: JobStore", "MarkExchange: WaitingWorkStore", "OutcomeApplication: BroadcastMember",
        "OutcomeApplication: ChannelAbsence",
        "OutcomeApplication: OutcomeStore", "OutcomeStore: BroadcastMember",
        "ConfirmWriter: FenceStore", "ConfirmWriter: JobStore", "Relay: HoldOutbox", "Relay: JobStore", "Relay: WaitingWorkStore",
        "TokenService: ChannelWatch", "UpdateTurns: CancellationOutbox", "WebhookDispatcher: WebhookQueue",
        "WebhookSubscriptions: WebhookQueue",
    ]

    /// The same where a request may use it, each with the reason why it reaches no other app.
    private static let inRequests = [
        "Cancellation: CancellationOutbox": "the notification that the app's store has just stopped; the relay calls the rest",
        "DeadLetterStore: JobStore": "the operator's replay",
        "DeadLetterStore: JobTemplate": "the operator's replay",
        "HoldService: HoldOutbox": "the hold that the app's store has just set or lifted; the relay calls the rest",
        "Notification: JobTemplate": "it reads no row",
        "NotificationStore: CancellationOutbox": "the query compares the app of the newer notification",
        "UpdateAdmission: CancellationOutbox": "the updates that a locked activity or channel has not sent",
        "WebhookRemoval: WebhookQueue": "a webhook whose removal the app's store has begun; the dispatcher of webhooks calls the rest",
        "WebhookStore: WebhookQueue": "a ping to a webhook that it has found by app",
    ]

    /// Of these, any type may use the audit trail, and the operator's routes the others.
    private static let ofRoutes: Set = ["AuditStore", "DeadLetterStore", "KeyStore"]

    /// Statements of an app's types whose rows another part of the statement, or the next one, compares with the app.
    private static let comparedElsewhere = [
        "AudienceCount.tagged": "the index on tags is of all apps; the next part compares what it found",
        "AudienceCount.namesTagsOfApps 2": "the same",
        "ErasureStore.historyEnd": "a number of the log, and no row",
        "ErasureStore.removeReceipts": "receipts are found by installation; their notifications are compared",
        "InstallationHistory.page 6": "receipts are found by installation; only those of the app's tokens are shown",
        "InstallationStore.taggedPage": "the index on tags is of all apps; the next statement compares what it found",
        "NotificationReading.reached": "ids alone; the next statement compares the notifications",
    ]

    /// How many comparisons of a statement may go without being missed: they join two lists of one batch, whose
    /// entries all name their apps, or an outer part of the statement compares again.
    private static let notMissed = [
        "ActivityEnd.insert 2": 2, "UpdateTargetStore.removeUnreached 2": 1, "ExportStore.page": 1,
    ]

    @Test("A statement of an app's type compares every row with the app; each exception is listed, and is still needed")
    func areBound() async throws {
        let bounds = try await Self.bounds()
        let statements = try SourceStatement.all() + SourceStatement.ofSchema()
        var (types, exceptions): (Set<String>, Set<String>) = ([], [])
        for statement in statements {
            let unbound = bounds.unbound(in: statement, worksForAllApps: false)
            if unbound.isEmpty { continue }
            if Self.forEveryApp[statement.type] != nil { types.insert(statement.type) } else { exceptions.insert(statement.name) }
            if Self.comparedElsewhere[statement.name] != nil { continue }
            let mayBegin = Self.forEveryApp[statement.type] != nil || Self.ofLockedRows[statement.name] != nil
            let found = mayBegin ? bounds.unbound(in: statement, worksForAllApps: true) : unbound
            #expect(found.isEmpty, "\(statement.type): \(statement.name) touches rows of any app in \(found)")
        }
        #expect(types.symmetricDifference(Self.forEveryApp.keys).isEmpty)
        #expect(exceptions.symmetricDifference(Self.ofLockedRows.keys).symmetricDifference(Self.comparedElsewhere.keys).isEmpty)
    }

    @Test("Without any one of its comparisons with the app, a statement is found") func areFound() async throws {
        let bounds = try await Self.bounds()
        var (count, notMissed): (Int, [String: Int]) = (0, [:])
        for statement in try SourceStatement.all() + SourceStatement.ofSchema() {
            let isView = statement.type == "VIEW"
            guard isView || Self.forEveryApp[statement.type] == nil,
                bounds.unbound(in: statement, worksForAllApps: isView).isEmpty
            else { continue }
            for changed in statement.withoutOneComparison() {
                count += 1
                if bounds.unbound(in: changed, worksForAllApps: isView).isEmpty { notMissed[statement.name, default: 0] += 1 }
            }
        }
        #expect(count > 150)
        #expect(notMissed == Self.notMissed)
    }

    @Test("Every view and function of the schema is among these statements, or is listed") func areRead() async throws {
        let names = try await withTestDatabase { pool, _ in
            try await Schema.migrator().migrate(pool)
            return try await pool.session { session in
                try session.execute(
                    """
                    SELECT proname::text AS name FROM pg_proc WHERE pronamespace = 'public'::regnamespace
                    UNION SELECT viewname::text FROM pg_views WHERE schemaname = 'public'
                    """
                ).column("name") as [String]
            }
        }
        let read = try SourceStatement.ofSchema().map(\.name)
        #expect(read.count > 30)
        #expect(Set(names).symmetricDifference(read).symmetricDifference(Self.inPLpgSQL.keys).isEmpty)
    }

    @Test("A type that works for every app is used by services, and within a request only where it is listed") func areUsed() throws {
        var uses: Set<String> = []
        for source in try SourceType.all() {
            // `JobStore(session: …)`, `JobStore.variants(…)`
            for use in source.text.matches(of: /\b([A-Z]\w+)(?:\(|\.[a-z]\w*\()/) {
                let type = String(use.output.1)
                guard Self.forEveryApp[type] != nil, type != source.name, !Self.ofRoutes.contains(type) else { continue }
                uses.insert("\(source.name): \(type)")
            }
        }
        let listed = Self.inServices.union(Self.inRequests.keys)
        #expect(uses.symmetricDifference(listed).isEmpty, "\(uses.symmetricDifference(listed).sorted())")
    }

    @Test("A type with a session that works for one app has it from the beginning, and takes no other") func areMadeWithTheirApp() throws {
        let sources = try SourceType.all()
        func types(with property: some RegexComponent) -> Set<String> { Set(sources.filter { $0.text.contains(property) }.map(\.name)) }
        let withSession = types(with: /(?m)^    (private )?let session: PostgresSession$/)
        let ofApp = withSession.intersection(types(with: /(?m)^    (private )?let app: App(\.ID)?\??$/))
        #expect(ofApp.count > 20)
        #expect(ofApp.isDisjoint(with: Self.forEveryApp.keys))
        // The registry takes batches, whose entries carry their apps, and single changes as batches of one.
        for source in sources where withSession.subtracting(["RegistryStore"]).contains(source.name) {
            for function in source.text.matches(of: /(?m)^    (?:package |private |fileprivate )?func (\w+)\(([^)]*)\)/) {
                #expect(!function.output.2.contains(/: App(\.ID)?\??(,|$)/), "\(source.name).\(function.output.1) takes an app")
            }
        }
    }

    private static func bounds() async throws -> AppBounds {
        try await withTestDatabase { pool, _ in
            try await Schema.migrator().migrate(pool)
            let columns = try await pool.session { session in
                try session.execute(
                    "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = 'public'"
                )
                .map { row -> (String, String) in (try row["table_name"], try row["column_name"]) }
            }
            return AppBounds(columns: Dictionary(grouping: columns, by: \.0).mapValues { Set($0.map(\.1)) })
        }
    }
}
