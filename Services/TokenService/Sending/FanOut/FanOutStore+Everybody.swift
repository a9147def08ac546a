import Postgres
import PushModel
import TokenServiceApps
import TokenServiceKit

/// Pages of the whole app, if no device has a time or a text of its own: by far the largest audiences. Each column is one value of the
/// answer, because most of a row's cost in PostgreSQL, libpq and here is per row.
extension FanOutStore {
    /// The database's data for one page.
    package struct Columns: Sendable {
        fileprivate var owners: Owners
        fileprivate var tokens: Tokens
        /// Where the page ends; nil if no installation is left.
        package var end: Int64? { owners.end }
    }

    /// The installations of a page and their owners' epochs, in the order of fan-out.
    fileprivate struct Owners: Sendable {
        /// The last one's; nil if no installation is left.
        var end: Int64?
        var ids: [PostgresUUID] = []
        /// 0 if it is deregistered, and so not meant.
        var epochs: [Int64] = []
    }

    /// Their live tokens, in the same order.
    fileprivate struct Tokens: Sendable {
        var ids: [Int64] = []
        var tokens = PostgresByteStrings()
        var installations: [PostgresUUID] = []
        /// The ids of those in the sandbox, and of those that APNs has not accepted anywhere yet.
        var inSandbox: [Int64] = []
        var unproven: [Int64] = []
    }

    /// Run it in one view of the database.
    /// - Returns: nil if the page has to be read in rows: there are variants, quiet hours or a local time, or a token has moved between
    ///   installations since fan-out began.
    package func columns(of fanOut: PendingFanOut, installations: Int, now: Int64) throws -> Columns? {
        guard fanOut.isEverybody, fanOut.content.variants.isEmpty else { return nil }
        guard fanOut.template.expiresAt > now else { return Columns(owners: Owners(), tokens: Tokens()) }
        guard let owners = try owners(fanOut, count: installations) else { return nil }
        guard let last = owners.end else { return Columns(owners: owners, tokens: Tokens()) }
        return try tokens(fanOut, through: last).map { Columns(owners: owners, tokens: $0) }
    }

    /// - Returns: nil if any of them may have a time of its own. Then they are read in rows.
    private func owners(_ fanOut: PendingFanOut, count: Int) throws -> Owners? {
        let row = try session.execute(
            """
            SELECT n.is_timed, i.last, i.ids, i.epochs FROM (
                SELECT n.app_id, f.local_time IS NOT NULL
                    OR NOT n.is_urgent AND EXISTS (SELECT FROM quiet_hours q WHERE q.app_id = n.app_id) AS is_timed
                FROM notifications n JOIN fan_outs f ON f.notification = n.id
                WHERE n.id = \(fanOut.template.notification) LIMIT 1
            ) AS n
            CROSS JOIN LATERAL (
                SELECT max(ordinal) AS last, array_agg(id) AS ids,
                    array_agg(CASE WHEN deregistered_at IS NULL THEN owner_epoch ELSE 0 END) AS epochs
                FROM (
                    SELECT ordinal, id, owner_epoch, deregistered_at FROM installations
                    WHERE app_id = n.app_id AND ordinal > \(fanOut.checkpoint.position) AND NOT n.is_timed ORDER BY ordinal LIMIT \(count)
                ) AS page
            ) AS i
            """
        ).only()
        guard try !row["is_timed"] else { return nil }
        let end: Int64? = try row["last"]
        return end == nil ? Owners() : Owners(end: end, ids: try row["ids"], epochs: try row["epochs"])
    }

    /// - Returns: nil if one of them has come from another installation since fan-out began. Few have registered since then.
    private func tokens(_ fanOut: PendingFanOut, through last: Int64) throws -> Tokens? {
        let row = try session.execute(
            """
            SELECT count(*) FILTER (WHERE has_moved) AS moved, coalesce(array_agg(token_id), '{}') AS ids,
                coalesce(array_agg(token), '{}') AS tokens, coalesce(array_agg(installation), '{}') AS installations,
                coalesce(array_agg(token_id) FILTER (WHERE environment = 'sandbox'), '{}') AS in_sandbox,
                coalesce(array_agg(token_id) FILTER (WHERE unproven), '{}') AS unproven
            FROM (\(Self.tokensOfEverybody(fanOut, through: last))) AS page
            """
        ).only()
        let moved: Int = try row["moved"]
        guard moved == 0 else { return nil }
        return Tokens(
            ids: try row["ids"], tokens: try row["tokens"], installations: try row["installations"], inSandbox: try row["in_sandbox"],
            unproven: try row["unproven"])
    }
}

extension PendingFanOut {
    /// Makes a page in one pass over its columns.
    package func page(of columns: FanOutStore.Columns, names: DeliveryNames, now: Int64) throws -> Page {
        guard let last = columns.end else { return Page(end: checkpoint, isLast: true, jobs: []) }
        let (owners, tokens) = (columns.owners, columns.tokens)
        var page = Page(end: checkpoint, isLast: false, jobs: [], read: owners.ids.count)
        page.end.position = last
        var draft = Draft(number: page.end.jobs, dueAt: now)
        var owner = 0
        var (sandbox, unproven) = (tokens.inSandbox[...], tokens.unproven[...])
        for index in tokens.ids.indices {
            let (id, holder) = (tokens.ids[index], tokens.installations[index])
            while owner < owners.ids.count, owners.ids[owner] != holder { owner += 1 }
            // Both are in the order of fan-out, and every token has its installation in the same page. Without this check, a violation
            // would pass devices over.
            guard owner < owners.ids.count else { throw CorruptRow(table: "tokens") }
            let (isInSandbox, isUnproven) = (sandbox.first == id, unproven.first == id)
            if isInSandbox { sandbox.removeFirst() }
            if isUnproven { unproven.removeFirst() }
            guard owners.epochs[owner] > 0 else { continue }
            draft.deliveries.append(
                id: names.id(job: draft.job.number, position: draft.deliveries.count), token: tokens.tokens[index],
                environment: isInSandbox ? .sandbox : .production, installation: PushID(holder),
                ownerEpoch: owners.epochs[owner], environmentTrial: environmentTrial(isUnproven: isUnproven))
            if isInSandbox { draft.job.sandbox.append(draft.job.members.count) }
            draft.job.members.append(id)
            if draft.deliveries.count == PushJob.maximumDeliveries {
                page.jobs.append(draft)
                draft = Draft(number: draft.job.number + 1, dueAt: now)
            }
        }
        if !draft.deliveries.isEmpty { page.jobs.append(draft) }
        page.end.jobs += page.jobs.count
        return page
    }
}

extension PendingFanOut.Draft {
    /// An empty one that will be full.
    fileprivate init(number: Int, dueAt: Int64) {
        var members: [Int64] = []
        members.reserveCapacity(PushJob.maximumDeliveries)
        self.init(
            job: Job(number: number, locale: "", dueAt: dueAt, members: members),
            deliveries: EncodedDeliveries(reservingCapacity: PushJob.maximumDeliveries))
    }
}
