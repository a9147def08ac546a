package import Postgres
package import PushModel

/// The SQL of walked notifications: who is meant, page by page, and the chunks that are made of them.
package struct AudienceStore {
    /// Installations of an app that one page looks at unless told otherwise, whether they are meant or not: so that a page stays short
    /// however few are meant.
    package static let installationsOfPage = 10_000
    /// Entries of a list that one page looks at.
    package static let entriesOfPage = 100

    /// Of an expression's tags: with more installations of all apps together, the walk goes through the app's installations instead.
    package static let maximumRare = 50_000
    /// Chunks whose members are read at once: up to 800 kB.
    private static let chunksRead = 1000
    /// Of an expression, how many ways into the index are compared.
    private static let maximumCandidates = 4

    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// - Returns: nil where its walk is over, or it was stopped.
    package func audience(of notification: PushID) throws -> Audience? {
        let answers = try session.pipeline([(Self.select, [.id(notification)]), (Self.selectVariants, [.ids([notification])])])
        guard let row = answers[0].first, let template = try JobTemplate.load([notification], in: session).first else { return nil }
        let variants = try answers[1].map { row in NotificationContent.Variant(locale: try row.text(1), payload: try row.bytes(2)) }
        return Audience(
            template: template, app: try row.int64(0), content: NotificationContent(payload: template.payload, variants: variants),
            keepsReceipts: try row.bool(1), lifetime: try row.optionalInt64(2), mayTryOtherEnvironment: try row.bool(3),
            listed: try row.optionalInt32(7).map { Int($0) }, rareTags: try rareTags(of: row.optionalText(8)), isEverybody: try row.bool(9),
            beganAt: try row.timestampMilliseconds(10),
            checkpoint: Audience.Checkpoint(
                ordinal: try row.int64(4), entries: Int(try row.int32(5)), chunks: Int(try row.int32(6))))
    }

    private func rareTags(of text: String?) throws -> [String]? {
        guard let text, let expression = TagExpression.stored(text) else { return nil }
        let candidates = expression.neededAlternatives.prefix(Self.maximumCandidates)
        guard !candidates.isEmpty else { return nil }
        let counts = try session.pipeline(candidates.map { (Self.countTagged, [.textArray($0)]) }).map { try $0.only().int64(0) }
        return zip(candidates, counts).filter { $1 <= Self.maximumRare }.min { $0.1 < $1.1 }?.0
    }

    /// Reads the next page. To run in one view of the database: a page is put together from several answers.
    /// - Parameters:
    ///   - previous: The page before, if it may not be committed yet.
    ///   - now: UNIX milliseconds.
    package func page(
        of audience: Audience, after previous: Audience.Page? = nil, installations: Int = installationsOfPage, names: DeliveryNames,
        now: Int64
    ) throws -> Audience.Page {
        if let columns = try columns(of: audience, installations: installations, now: now) {
            return try audience.page(of: columns, names: names, now: now)
        }
        return try rows(of: audience, after: previous, installations: installations, names: names, now: now)
    }

    /// The same for whatever is not read in columns.
    package func rows(
        of audience: Audience, after previous: Audience.Page?, installations: Int, names: DeliveryNames, now: Int64
    ) throws -> Audience.Page {
        guard audience.template.expiresAt > now else { return Audience.Page(end: audience.checkpoint, isLast: true, chunks: []) }
        guard var part = try part(of: audience, installations: installations) else {
            return Audience.Page(end: audience.checkpoint, isLast: true, chunks: [])
        }
        let moved = part.found.filter(\.hasMoved).map(\.tokenID)
        if !moved.isEmpty {
            var met = try inChunks(of: audience, among: Set(moved))
            for draft in previous?.chunks ?? [] { met.formUnion(draft.chunk.members) }
            part.found.removeAll { $0.hasMoved && met.contains($0.tokenID) }
        }
        var page = audience.page(part.found, end: part.end, isLast: part.isLast, names: names, now: now)
        page.read = part.read
        return page
    }

    /// Which of these tokens are in a committed chunk already. Looked for here: in the database each of them would be looked for in each
    /// chunk, and a large audience's walk would never get past a page to which many have moved.
    private func inChunks(of audience: Audience, among tokens: Set<Int64>) throws -> Set<Int64> {
        var met: Set<Int64> = []
        for first in stride(from: 0, to: audience.checkpoint.chunks, by: Self.chunksRead) {
            let parameters: [PostgresValue] = [
                .id(audience.template.notification), .int32(Int32(clamping: first)), .int32(Int32(clamping: first + Self.chunksRead)),
            ]
            let members = Chunk.members(of: try session.execute(Self.membersOfChunks, parameters).only().bytes(0))
            for member in members where tokens.contains(member) { met.insert(member) }
        }
        return met
    }

    /// What the walk looks at next, and whom it finds there.
    private struct Part {
        var found: [Audience.Found]
        var end: Audience.Checkpoint
        var isLast = false
        var read: Int
    }

    /// - Returns: nil where there is nobody left.
    private func part(of audience: Audience, installations: Int) throws -> Part? {
        var end = audience.checkpoint
        let purpose = PostgresValue.text(audience.template.pushType.purpose.rawValue)
        let wantsLocale = PostgresValue.bool(!audience.content.variants.isEmpty)
        let id = PostgresValue.id(audience.template.notification)
        let began = PostgresValue.timestamp(milliseconds: audience.beganAt)
        if let listed = audience.listed {
            let from = end.entries
            end.entries = min(listed, from + Self.entriesOfPage)
            let rows = try session.execute(
                Self.pageOfList,
                [id, .int32(Int32(clamping: from)), .int32(Int32(clamping: end.entries)), purpose, wantsLocale, began])
            return Part(
                found: try rows.map { row in try Self.found(row) }, end: end, isLast: end.entries == listed, read: end.entries - from)
        }
        if let tags = audience.rareTags {
            let found = try session.execute(
                Self.taggedInstallations,
                [.int64(audience.app), .int64(end.ordinal), .int64(Int64(installations)), .textArray(tags)])
            guard let last = found.last else { return nil }
            end.ordinal = try last.int64(1)
            let ids = try found.map { row in try row.id(0) }
            let rows = try session.execute(Self.pageOfTagged, [id, .ids(ids), purpose, wantsLocale, began])
            return Part(found: try rows.map { row in try Self.found(row) }, end: end, read: found.count)
        }
        let last = try session.execute(Self.pageEnd, [.int64(audience.app), .int64(end.ordinal), .int64(Int64(installations))])
        guard let last = last.first else { return nil }
        end.ordinal = try last.int64(0)
        let read = Int(try last.int64(1))
        let from = audience.checkpoint.ordinal
        if audience.isEverybody {
            return Part(found: try everybody(audience, after: from, through: end.ordinal), end: end, read: read)
        }
        let rows = try session.execute(Self.pageOfApp, [id, .int64(from), .int64(end.ordinal), purpose, wantsLocale, began])
        return Part(found: try rows.map { row in try Self.found(row) }, end: end, read: read)
    }

    /// Installations beside their tokens, both in the order of the walk.
    private func everybody(_ audience: Audience, after first: Int64, through last: Int64) throws -> [Audience.Found] {
        let id = PostgresValue.id(audience.template.notification)
        let purpose = PostgresValue.text(audience.template.pushType.purpose.rawValue)
        let answers = try session.pipeline([
            (Self.installationsOfEverybody, [id, .int64(first), .int64(last), .bool(!audience.content.variants.isEmpty)]),
            (
                Self.tokensOfEverybody,
                [
                    .int64(audience.app), .int64(first), .int64(last), purpose, id, .bool(audience.keepsReceipts),
                    .timestamp(milliseconds: audience.beganAt),
                ]
            ),
        ])
        let (owners, tokens) = (answers[0], answers[1])
        var found: [Audience.Found] = []
        found.reserveCapacity(tokens.count)
        var owner = 0
        var place = try owners.isEmpty ? nil : owners[0].int64(4)
        for index in tokens.indices {
            let token = tokens[index]
            let holder = try token.int64(6)
            while let passed = place, passed < holder {
                owner += 1
                place = try owner < owners.count ? owners[owner].int64(4) : nil
            }
            // Otherwise it is of an installation that is not meant.
            if holder == place { found.append(try Self.found(token, of: owners[owner], token.id(3))) }
        }
        return found
    }

    private static func found(_ token: PostgresRow, of owner: PostgresRow, _ installation: PushID) throws -> Audience.Found {
        guard let text = DeviceToken(bytes: try token.bytes(1)), let environment = APNsEnvironment(rawValue: try token.text(2)) else {
            throw CorruptRow(table: "tokens")
        }
        return Audience.Found(
            tokenID: try token.int64(0), token: text, environment: environment, installation: installation,
            ownerEpoch: try owner.int64(1), isUnproven: try token.bool(4), locale: try owner.optionalText(2),
            dueAt: try owner.optionalTimestampMilliseconds(3), hasMoved: try token.bool(5))
    }

    /// Makes a page's chunks and moves the checkpoint. Commits: nothing may follow in the transaction.
    /// - Throws: ``WalkedElsewhere``.
    /// - Parameter now: UNIX milliseconds; what is due later is left to the relay.
    package func commit(_ page: Audience.Page, of audience: Audience, leaseSeconds: Double, now: Int64) throws {
        let from = audience.checkpoint
        let id = PostgresValue.id(audience.template.notification)
        let advanced = try session.execute(
            Self.advance,
            [
                id, .int64(page.end.ordinal), .int32(Int32(clamping: page.end.entries)), .int32(Int32(clamping: page.end.chunks)),
                .int32(Int32(clamping: page.count)), .bool(page.isLast), .double(leaseSeconds), .int64(from.ordinal),
                .int32(Int32(clamping: from.entries)), .int32(Int32(clamping: from.chunks)),
            ]
        ).affected
        guard advanced == 1 else { throw WalkedElsewhere() }
        var commands: [(PostgresStatement, [PostgresValue])] = []
        let chunks = page.chunks.map(\.chunk)
        if !chunks.isEmpty {
            commands.append(
                (
                    Self.insertChunks,
                    [
                        id, .text(audience.template.lane.rawValue), .int32Array(chunks.map { Int32(clamping: $0.number) }),
                        .textArray(chunks.map(\.locale)), .timestampArray(chunks.map(\.dueAt)),
                        .bytesArray(chunks.map { Chunk.bytes(of: $0.members) }), .double(leaseSeconds),
                        .timestamp(milliseconds: now), .timestamp(milliseconds: audience.template.expiresAt),
                    ]
                ))
        }
        if audience.keepsReceipts, !chunks.isEmpty { commands.append((Self.insertDeliveries, [id] + Self.receipts(page, of: audience))) }
        try session.commit(with: commands)
    }

    private static func receipts(_ page: Audience.Page, of audience: Audience) -> [PostgresValue] {
        let names = DeliveryNames(audience.template.notification)
        let found = page.chunks.flatMap(\.found)
        return [
            .ids(page.chunks.flatMap { draft in draft.found.indices.map { names.id(chunk: draft.chunk.number, position: $0) } }),
            .int64Array(found.map(\.tokenID)), .ids(found.map(\.installation)), .int64Array(found.map(\.ownerEpoch)),
            .textArray(found.map(\.environment.rawValue)), .boolArray(found.map(\.isUnproven)),
        ]
    }

    private static func found(_ row: PostgresRow) throws -> Audience.Found {
        guard let token = DeviceToken(bytes: try row.bytes(1)), let environment = APNsEnvironment(rawValue: try row.text(2)) else {
            throw CorruptRow(table: "tokens")
        }
        return Audience.Found(
            tokenID: try row.int64(0), token: token, environment: environment, installation: try row.id(3),
            ownerEpoch: try row.int64(4), isUnproven: try row.bool(5), locale: try row.optionalText(6),
            dueAt: try row.optionalTimestampMilliseconds(7), hasMoved: try row.bool(8))
    }
}

/// Another process has the walk, or somebody stopped the notification.
package struct WalkedElsewhere: Error {}
