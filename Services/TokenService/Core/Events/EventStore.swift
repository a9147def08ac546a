package import Postgres
package import PushModel

/// The SQL of the event feeds.
package struct EventStore {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// How far a log goes, as one view of the database sees it.
    package struct Horizon: Equatable, Sendable {
        /// The highest number that is there.
        package var last: Int64
        /// Every transaction before this one has ended.
        package var ended: Int64
        /// No transaction from this one on had begun to write.
        package var begun: Int64
    }

    // MARK: Leases

    /// Takes the feed, or renews the lease.
    /// - Returns: how far it was read; nil where another process reads it.
    package func take(_ feed: EventFeed.Name, holder: PushID) throws -> Int64? {
        try session.execute(Self.take, feed.values + [.id(holder), .double(EventFeed.leaseSeconds)]).first.map { row in try row.int64(0) }
    }

    /// - Throws: ``LeaseLost`` where another process has taken the feed over: what was told is told again there.
    package func advance(_ feed: EventFeed.Name, to position: Int64, holder: PushID) throws {
        let moved = try session.execute(Self.advance, feed.values + [.id(holder), .int64(position), .double(EventFeed.leaseSeconds)])
        guard moved.affected == 1 else { throw LeaseLost() }
    }

    package func release(_ feed: EventFeed.Name, holder: PushID) throws {
        try session.execute(Self.release, feed.values + [.id(holder)])
    }

    // MARK: Reading

    package func horizon(of log: EventLog) throws -> Horizon {
        let row = try session.execute(log == .notifications ? Self.notificationHorizon : Self.installationHorizon).only()
        return Horizon(last: try row.int64(0), ended: try row.int64(1), begun: try row.int64(2))
    }

    /// Apps that want this log on the exchange.
    package func streamingApps(_ log: EventLog) throws -> [App.ID] {
        try session.execute(Self.streamingApps, [.text(log.rawValue)]).map { row in try row.int64(0) }
    }

    package struct Read: Sendable {
        package var events: [PushEvent] = []
        /// The number of each.
        package var positions: [Int64] = []
    }

    /// What those apps' events are after one number and up to another, at most `limit`.
    package func read(_ log: EventLog, after position: Int64, upTo end: Int64, apps: [App.ID], limit: Int) throws -> Read {
        let parameters: [PostgresValue] = [.int64(position), .int64(end), .int64Array(apps), .int64(Int64(limit))]
        switch log {
        case .notifications: return try notifications(session.execute(Self.notificationRows, parameters))
        case .installations: return try installations(session.execute(Self.installationRows, parameters))
        }
    }

    private func notifications(_ rows: PostgresRows) throws -> Read {
        let counts = try counts(of: rows.filter { try NotificationChange.isLast($0.text(4)) }.map { row in try row.id(3) })
        var read = Read()
        for row in rows {
            let (number, at, id, event) = (try row.int64(0), try row.timestampMilliseconds(5), try row.id(3), try row.text(4))
            // Of a walked one, before the walk.
            let isUnresolved = try row.bool(11) && ["accepted", "scheduled"].contains(event)
            let change = NotificationChange(
                notification: id, event: event, lane: try row.text(6), pushType: try row.text(7),
                acceptedAt: try row.timestampMilliseconds(8), expiresAt: try row.timestampMilliseconds(9),
                total: isUnresolved ? nil : Int(try row.int32(10)),
                counts: NotificationChange.isLast(event) ? counts[id] ?? [:] : nil)
            read.events.append(
                change.event(
                    id: PushEvent.id(of: .notifications, row: number, at: at), app: try row.int64(1), slug: try Self.slug(row, 2), at: at))
            read.positions.append(number)
        }
        return read
    }

    private func counts(of ids: [PushID]) throws -> [PushID: [String: Int]] {
        guard !ids.isEmpty else { return [:] }
        var counts: [PushID: [String: Int]] = [:]
        for row in try session.execute(Self.counts, [.ids(ids)]) {
            counts[try row.id(0), default: [:]][try row.text(1)] = Int(try row.int64(2))
        }
        return counts
    }

    private func installations(_ rows: PostgresRows) throws -> Read {
        var read = Read()
        for row in rows {
            guard let event = HistoryEntry.Event(rawValue: try row.text(4)) else { throw CorruptRow(table: "installation_history") }
            let number = try row.int64(0)
            var entry = HistoryEntry(app: try row.int64(1), installation: try row.id(3), event: event, at: try row.timestampMilliseconds(5))
            entry.ownerEpoch = try row.optionalInt64(6)
            if let hint = try row.optionalText(7), let environment = try row.optionalText(8), let purpose = try row.optionalText(9) {
                entry.token = HistoryEntry.Token(id: nil, hint: hint, environment: environment, purpose: purpose)
            }
            entry.otherInstallation = try row.optionalID(10)
            entry.status = try row.optionalInt32(11)
            entry.reason = try row.optionalText(12)
            entry.apnsTimestamp = try row.optionalTimestampMilliseconds(13)
            entry.delivery = try row.optionalID(14)
            read.events.append(
                InstallationChange(entry).event(
                    id: PushEvent.id(of: .installations, row: number, at: entry.at), slug: try Self.slug(row, 2)))
            read.positions.append(number)
        }
        return read
    }

    private static func slug(_ row: PostgresRow, _ column: Int) throws -> AppSlug {
        guard let slug = AppSlug(try row.text(column)) else { throw CorruptRow(table: "apps") }
        return slug
    }
}
