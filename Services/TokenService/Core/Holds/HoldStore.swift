package import Postgres
package import PushModel

/// The SQL of holds themselves; what waits because of them is in `HoldStore+Outbox.swift`.
package struct HoldStore {
    /// Holds that may be in force at once: every dispatcher remembers them.
    package static let maximumInForce = 1000

    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// - Throws: ``TooManyHolds``, ``UnknownNotification``.
    package func insert(_ request: HoldRequest, app: App?, by key: String, id: PushID) throws -> Hold {
        let notification = PostgresValue.optionalID(request.scope.notification)
        let answers = try session.pipeline([
            (Self.mayInsert, [.optionalInt64(app?.id), notification]),
            (
                Self.insert,
                [
                    .id(id), .optionalInt64(app?.id), .optionalText(request.scope.lane?.rawValue), notification, .text(request.reason),
                    .text(key), .optionalTimestamp(milliseconds: request.endsAt), .int64(Int64(Self.maximumInForce)),
                ]
            ),
        ])
        guard answers[1].affected == 1, let hold = try find(id, app: app) else {
            throw try answers[0].only().bool(0) ? TooManyHolds() : UnknownNotification()
        }
        return hold
    }

    /// - Parameter app: nil for any hold; otherwise those of the app and those over every app.
    package func find(_ id: PushID, app: App?) throws -> Hold? {
        try session.execute(Self.find, [.id(id), .optionalInt64(app?.id)]).first.map { row in try Self.hold(row) }
    }

    /// Ends a hold that is in force; leaves one that is over as it is.
    /// - Parameter app: nil for any hold; otherwise those of that app alone.
    /// - Returns: nil where there is none.
    package func lift(_ id: PushID, app: App?, by key: String) throws -> Hold? {
        let answers = try session.pipeline([
            (Self.lift, [.id(id), .optionalInt64(app?.id), .text(key)]), (Self.findOwn, [.id(id), .optionalInt64(app?.id)]),
        ])
        return try answers[1].first.map { row in try Self.hold(row) }
    }

    package struct Page: Sendable {
        package var holds: [Hold]
        /// Where the next page begins; nil at the end.
        package var last: PushID?
    }

    /// The newest first.
    /// - Parameter app: nil for every hold; otherwise those of the app and those over every app.
    package func page(app: App?, state: Hold.State?, after: PushID?, limit: Int) throws -> Page {
        var holds = try session.execute(
            Self.page, [.optionalInt64(app?.id), .optionalText(state?.rawValue), .optionalID(after), .int64(Int64(limit) + 1)]
        ).map { row in try Self.hold(row) }
        guard holds.count > limit else { return Page(holds: holds, last: nil) }
        holds.removeLast()
        return Page(holds: holds, last: holds.last?.id)
    }

    /// A hold as this process's memory and the control stream need it.
    package struct Entry: Sendable {
        package var hold: Hold
        package var app: App.ID?
        /// The control stream does not have it, or has had it for long.
        package var isDue: Bool
    }

    /// Every hold in force, and every one that is lifted of which the control stream does not know.
    package func toPublish() throws -> [Entry] {
        try session.execute(Self.toPublish).map { row in
            Entry(hold: try Self.hold(row), app: try row.optionalInt64(12), isDue: try row.bool(13))
        }
    }

    package func markPublished(_ holds: [PushID]) throws {
        guard !holds.isEmpty else { return }
        try session.execute(Self.markPublished, [.ids(holds.sorted())])
    }

    package func markLiftPublished(_ holds: [PushID]) throws {
        guard !holds.isEmpty else { return }
        try session.execute(Self.markLiftPublished, [.ids(holds.sorted())])
    }

    /// Columns: ``columns``.
    private static func hold(_ row: PostgresRow) throws -> Hold {
        let app = try row.optionalText(1).flatMap { AppSlug($0) }
        let lane = try row.optionalText(2).flatMap { Lane(rawValue: $0) }
        guard let scope = HoldScope(app: app, lane: lane, notification: try row.optionalID(3)),
            let state = Hold.State(rawValue: try row.text(10))
        else { throw CorruptRow(table: "holds") }
        var lifting: Hold.Lifting?
        if let at = try row.optionalTimestampMilliseconds(8), let by = try row.optionalText(9) { lifting = Hold.Lifting(at: at, by: by) }
        return Hold(
            id: try row.id(0), scope: scope, reason: try row.text(4), setAt: try row.timestampMilliseconds(5), setBy: try row.text(6),
            endsAt: try row.optionalTimestampMilliseconds(7), lifting: lifting, state: state, isPublished: try row.bool(11))
    }
}
