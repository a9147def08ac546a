package import Postgres
package import PushModel
package import TokenServiceApps
package import TokenServiceRegistry

/// Installations that did not register for the days that their app sets: marked, and deregistered if the app wants it.
///
/// Found page by page in the order of the primary key: an index on the last registration would make every refresh dearer. ``RegistryBatch``
/// decides under the row's lock whether one is stale, so one that registered meanwhile is left alone.
///
/// Each step goes by the app's settings of its own moment: a removal may take days, and an operator stops it by them.
package struct StaleInstallations {
    /// Rows that one step reads.
    package static let page = 1000
    /// Installations that one step removes.
    package static let removalBatch = 100

    private let session: PostgresSession
    private let app: App

    /// - Parameter app: The app as the round has read it; its settings do not count here.
    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    package struct Page: Sendable {
        /// Nil at the end.
        package var last: PushID?
        package var flagged = 0
        /// Flagged and not removed, though the app wants it.
        package var removable: [PushID] = []
    }

    /// Reads the installations after `cursor` and marks those that are stale. It commits.
    package func flag(after cursor: PushID) throws -> Page {
        let rule = try rule()
        guard let moment = rule.unseenSince else { return Page() }
        // A query of one table: joined with the app, the planner reads all of its installations if the app sets no days.
        let rows = try session.execute(
            """
            SELECT id, deregistered_at IS NULL AND registered_at < \(milliseconds: moment) AS is_stale
            FROM installations WHERE app_id = \(app.id) AND id > \(cursor) ORDER BY id LIMIT \(Self.page)
            """)
        let stale: [PushID] = try rows.filter { row in try row["is_stale"] }.map { row in try row["id"] }
        var page = Page(last: try rows.last?["id"])
        guard !stale.isEmpty else { return page }
        page.flagged = try apply(.markStale(stale, unseenSince: moment), to: stale).installations.count
        if rule.removes { page.removable = stale }
        return page
    }

    /// Deregisters the installations that are marked and still stale, if the app still wants it: tokens retired, epoch ended, fenced. It
    /// commits.
    package func remove(_ installations: [PushID]) throws -> RegistryStore.Committed {
        let rule = try rule()
        guard rule.removes, let moment = rule.unseenSince else { return RegistryStore.Committed() }
        return try apply(.removeStale(installations, unseenSince: moment), to: installations)
    }

    private func apply(_ change: RegistryChange, to installations: [PushID]) throws -> RegistryStore.Committed {
        try RegistryStore(session: session).commit(
            change, of: app, reading: RegistryStore.Needs(app: app.id, installations: installations))
    }

    private struct Rule {
        /// UNIX milliseconds. An installation that registered later is not stale; nil if the app sets no days.
        var unseenSince: Int64?
        var removes: Bool
    }

    /// The row lock makes a change of the settings wait for this step: once the change is answered, no step goes by the older ones.
    private func rule() throws -> Rule {
        let row = try session.execute(
            """
            SELECT now() - make_interval(days => stale_after_days) AS unseen_since, removes_stale FROM apps WHERE id = \(app.id) FOR SHARE
            """
        ).only()
        return Rule(unseenSince: try row.milliseconds("unseen_since"), removes: try row["removes_stale"])
    }
}
