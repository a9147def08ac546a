import Postgres
import PushModel

/// The page of everybody where no device has a time or a text of its own: by far the largest audiences. It is read and written in columns,
/// one value of the answer for each, because of what a row costs on its way through PostgreSQL, libpq and here most is for being a row.
extension AudienceStore {
    /// Installations and their owners' epochs, in ascending order.
    private struct Owners {
        var ids: [PostgresUUID]
        var epochs: [Int64]
        /// Not deregistered.
        var isLive: [Bool]
    }

    /// Live tokens, in ascending order of installation.
    private struct Tokens {
        var ids: [Int64]
        var tokens: PostgresByteStrings
        var isProduction: [Bool]
        var installations: [PostgresUUID]
        var isUnproven: [Bool]
    }

    /// - Returns: nil where the page has to be read as any other: there are receipts, variants, quiet hours or a local time, or a token has
    ///   moved between installations since the walk began.
    package func pageOfEverybody(_ audience: Audience, installations: Int, names: DeliveryNames, now: Int64) throws -> Audience.Page? {
        guard audience.isEverybody, !audience.keepsReceipts, audience.content.variants.isEmpty else { return nil }
        guard let owners = try owners(audience, count: installations) else { return nil }
        guard let last = owners.ids.last else { return Audience.Page(end: audience.checkpoint, isLast: true, chunks: []) }
        guard let tokens = try tokens(audience, through: last) else { return nil }
        var end = audience.checkpoint
        end.installation = PushID(last)
        var page = try Self.page(tokens, of: owners, audience, end: end, names: names, now: now)
        page.read = owners.ids.count
        return page
    }

    /// - Returns: nil where they have times of their own.
    private func owners(_ audience: Audience, count: Int) throws -> Owners? {
        let row = try session.execute(
            Self.owners, [.id(audience.template.notification), .id(audience.checkpoint.installation), .int64(Int64(count))]
        ).only()
        guard try !row.bool(0) else { return nil }
        // There is nobody left.
        guard try !row.isNull(1) else { return Owners(ids: [], epochs: [], isLive: []) }
        return Owners(ids: try row.uuidArray(1), epochs: try row.int64Array(2), isLive: try row.boolArray(3))
    }

    /// - Returns: nil where one of them has moved.
    private func tokens(_ audience: Audience, through last: PostgresUUID) throws -> Tokens? {
        let row = try session.execute(
            Self.tokens,
            [
                .int64(audience.app), .id(audience.checkpoint.installation), .uuid(last),
                .text(audience.template.pushType.purpose.rawValue), .timestamp(milliseconds: audience.beganAt),
            ]
        ).only()
        guard try row.int64(0) == 0 else { return nil }
        guard try !row.isNull(1) else {
            return Tokens(ids: [], tokens: PostgresByteStrings(), isProduction: [], installations: [], isUnproven: [])
        }
        return Tokens(
            ids: try row.int64Array(1), tokens: try row.byteStrings(2), isProduction: try row.boolArray(3),
            installations: try row.uuidArray(4), isUnproven: try row.boolArray(5))
    }

    /// Puts both together, walking along them once.
    private static func page(
        _ tokens: Tokens, of owners: Owners, _ audience: Audience, end: Audience.Checkpoint, names: DeliveryNames, now: Int64
    ) throws -> Audience.Page {
        var page = Audience.Page(end: end, isLast: false, chunks: [])
        var draft = Audience.Draft(number: end.chunks, dueAt: now)
        var owner = 0
        for index in tokens.ids.indices {
            let holder = tokens.installations[index]
            // Both come in the order of the index. If they ever did not, devices would be passed over.
            guard index == 0 || tokens.installations[index - 1] <= holder else { throw CorruptRow(table: "tokens") }
            while owner < owners.ids.count, owners.ids[owner] < holder { owner += 1 }
            // Otherwise it is of an installation that is not meant.
            guard owner < owners.ids.count, owners.ids[owner] == holder, owners.isLive[owner] else { continue }
            draft.deliveries.append(
                id: names.id(chunk: draft.chunk.number, position: draft.deliveries.count), token: tokens.tokens[index],
                environment: tokens.isProduction[index] ? .production : .sandbox, installation: PushID(holder),
                ownerEpoch: owners.epochs[owner], environmentTrial: audience.environmentTrial(isUnproven: tokens.isUnproven[index]))
            draft.chunk.members.append(tokens.ids[index])
            if draft.deliveries.count == PushJob.maximumDeliveries {
                page.chunks.append(draft)
                draft = Audience.Draft(number: draft.chunk.number + 1, dueAt: now)
            }
        }
        if !draft.deliveries.isEmpty { page.chunks.append(draft) }
        page.end.chunks += page.chunks.count
        return page
    }

    /// The next $3 installations after $2, and whether any of them may have a time of its own: then they are read another way.
    private static let owners: PostgresStatement = """
        SELECT n.is_timed, i.ids, i.epochs, i.is_live FROM (
            SELECT app_id, local_time IS NOT NULL
                OR NOT is_urgent AND EXISTS (SELECT FROM quiet_hours q WHERE q.app_id = notifications.app_id) AS is_timed
            FROM notifications WHERE id = $1 OFFSET 0
        ) AS n
        CROSS JOIN LATERAL (
            SELECT array_agg(id) AS ids, array_agg(owner_epoch) AS epochs, array_agg(deregistered_at IS NULL) AS is_live FROM (
                SELECT id, owner_epoch, deregistered_at FROM installations
                WHERE app_id = n.app_id AND id > $2 AND NOT n.is_timed ORDER BY id LIMIT $3
            ) AS page
        ) AS i
        """
    /// Their tokens; first, how many of them have come from another installation since $5. Few have registered since then.
    private static let tokens: PostgresStatement = """
        SELECT count(*) FILTER (WHERE registered_at >= $5 AND EXISTS (
                SELECT FROM installation_history h WHERE h.token_id = page.id AND h.event = 'token_moved_away' AND h.at >= $5)),
            array_agg(id), array_agg(token), array_agg(environment = 'production'), array_agg(installation), array_agg(proven_at IS NULL)
        FROM (
            SELECT id, token, environment, installation, proven_at, registered_at FROM tokens
            WHERE app_id = $1 AND installation > $2 AND installation <= $3 AND purpose = $4 AND state = 'active'
            ORDER BY installation, purpose, environment
        ) AS page
        """
}

extension Audience.Draft {
    /// An empty one that is going to be full.
    fileprivate init(number: Int, dueAt: Int64) {
        var members: [Int64] = []
        members.reserveCapacity(PushJob.maximumDeliveries)
        self.init(
            chunk: Chunk(number: number, locale: "", dueAt: dueAt, members: members),
            deliveries: EncodedDeliveries(reservingCapacity: PushJob.maximumDeliveries))
    }
}
