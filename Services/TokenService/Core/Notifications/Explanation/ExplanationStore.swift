package import Postgres
package import PushModel

/// The SQL that finds out what happened to one notification for one user.
package struct ExplanationStore {
    /// Installations of one user that are looked at; chunks that are looked through.
    package static let maximumInstallations = 100
    package static let maximumChunks = 20_000

    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// Several statements: the transaction must be of isolation `.repeatableRead`.
    /// - Returns: nil where the app has no such notification.
    package func facts(of id: PushID, user: String) throws -> ExplanationFacts? {
        let place: [PostgresValue] = [.int64(app.id), .text(user)]
        let first = try session.pipeline([
            (Self.notification, [.int64(app.id), .id(id), .text(user)]), (Self.stays, place), (Self.current, place),
            (Self.holds, [.int64(app.id), .id(id)]),
        ])
        guard let notification = try first[0].first.map({ row in try Self.notification(row, id: id) }) else { return nil }
        var times: [PushID: [Int64: ExplanationFacts.Time]] = [:]
        for row in first[1] {
            times[try row.id(0), default: [:]][try row.int64(1)] = ExplanationFacts.Time(
                from: try row.optionalTimestampMilliseconds(2), to: try row.optionalTimestampMilliseconds(3), isNow: false)
        }
        for row in first[2] {
            let from = times[try row.id(0)]?[try row.int64(1)]?.from
            times[try row.id(0), default: [:]][try row.int64(1)] = ExplanationFacts.Time(from: from, to: nil, isNow: true)
        }
        // Where the user is now before where the user was.
        let ids = times.sorted { left, right in
            let (isLeft, isRight) = (left.value.values.contains { $0.isNow }, right.value.values.contains { $0.isNow })
            return isLeft == isRight ? left.key < right.key : isLeft
        }.prefix(Self.maximumInstallations).map(\.key).sorted()
        var facts = ExplanationFacts(
            user: user, notification: notification,
            quietHours: try QuietHoursStore(session: session, app: app).find(user),
            installations: ids.map { ExplanationFacts.Installation(id: $0, times: times[$0] ?? [:]) })
        facts.isCutShort = times.count > ids.count
        facts.holds = try first[3].map { row in try Self.hold(row) }
        facts.credentials = try CredentialStore(session: session).credentials(of: app.slug)
        if !ids.isEmpty { try load(ids, into: &facts) }
        return facts
    }

    private func load(_ ids: [PushID], into facts: inout ExplanationFacts) throws {
        let notification = facts.notification
        let id = PostgresValue.id(notification.id)
        let place: [PostgresValue] = [.int64(app.id), .ids(ids)]
        let purpose = PostgresValue.text(notification.pushType.purpose.rawValue)
        let since = PostgresValue.timestamp(milliseconds: notification.acceptedAt)
        let answers = try session.pipeline([
            (Self.installations, place + [id]), (Self.tokens, place + [purpose]), (Self.deliveries, place + [id]),
            (Self.fences, place + [since]), (Self.history, place + [since]),
        ])
        var byID = Dictionary(uniqueKeysWithValues: facts.installations.map { ($0.id, $0) })
        for row in answers[0] { try Self.add(row, to: &byID[try row.id(0)]) }
        var holder: [Int64: PushID] = [:]
        for row in answers[1] {
            let token = try ReachabilityState.Token(row)
            byID[try row.id(8)]?.tokens.append(token)
            holder[token.id] = try row.id(8)
        }
        for row in answers[2] {
            let delivery = ExplanationFacts.Delivery(
                told: try NotificationStatus.delivery(row), ownerEpoch: try row.int64(14), tokenID: try row.int64(15))
            // Of what was stopped before anybody was meant, the token alone is known.
            let place = byID[delivery.told.installation] == nil && delivery.told.installation == .lowest ? holder[delivery.tokenID] : nil
            byID[place ?? delivery.told.installation]?.deliveries.append(delivery)
        }
        for row in answers[3] {
            byID[try row.id(0)]?.fences.append(
                ExplanationFacts.Fence(
                    epochsBelow: try row.int64(1), at: try row.timestampMilliseconds(2),
                    publishedAt: try row.optionalTimestampMilliseconds(3)))
        }
        for row in answers[4] {
            let entry = try HistoryEntry(row)
            byID[entry.installation]?.history.append(entry)
        }
        if notification.isWalked { try loadChunks(of: notification, holders: holder, into: &byID, facts: &facts) }
        facts.installations = ids.compactMap { byID[$0] }
    }

    private func loadChunks(
        of notification: ExplanationFacts.Notification, holders: [Int64: PushID],
        into installations: inout [PushID: ExplanationFacts.Installation], facts: inout ExplanationFacts
    ) throws {
        // What was over before can be in no chunk; what has moved away since was meant where it was.
        var holders = holders.filter { id, holder in
            installations[holder]?.tokens.contains { $0.id == id && ($0.retired?.at ?? .max) >= notification.acceptedAt } ?? false
        }
        for installation in installations.values {
            for move in installation.history where move.event == .tokenMovedAway && move.at > notification.publishedAt ?? .max {
                if let token = move.token?.id { holders[token] = installation.id }
            }
        }
        let answers = try session.pipeline([
            (Self.chunks, [.id(notification.id), .int64Array(holders.keys.sorted())]), (Self.chunkHorizon, [.id(notification.id)]),
        ])
        for row in answers[0] {
            let token = try row.int64(0)
            guard let holder = holders[token] else { continue }
            installations[holder]?.chunks.append(
                ExplanationFacts.ChunkPlace(
                    tokenID: token, dueAt: try row.timestampMilliseconds(1), publishedAt: try row.optionalTimestampMilliseconds(2),
                    isSettled: try row.bool(3)))
        }
        if answers[1].first != nil { facts.isCutShort = true }
    }

    private static func add(_ row: PostgresRow, to installation: inout ExplanationFacts.Installation?) throws {
        installation?.signedOutReason = try row.optionalText(1)
        installation?.deregisteredAt = try row.optionalTimestampMilliseconds(2)
        installation?.throttledUntil = try row.optionalTimestampMilliseconds(3)
        installation?.isNamed = try row.bool(4)
        installation?.namedEpoch = try row.optionalInt64(5)
        installation?.matchesTags = try row.optionalBool(6)
        installation?.isAhead = try row.bool(7)
    }

    private static func hold(_ row: PostgresRow) throws -> ExplanationFacts.Hold {
        let app = try row.optionalText(1).flatMap { AppSlug($0) }
        let lane = try row.optionalText(2).flatMap { Lane(rawValue: $0) }
        guard let scope = HoldScope(app: app, lane: lane, notification: try row.optionalID(3)) else { throw CorruptRow(table: "holds") }
        return ExplanationFacts.Hold(
            id: try row.id(0), scope: scope, reason: try row.text(4), setAt: try row.timestampMilliseconds(5),
            endsAt: try row.optionalTimestampMilliseconds(6))
    }

    private static func notification(_ row: PostgresRow, id: PushID) throws -> ExplanationFacts.Notification {
        guard let state = NotificationState(rawValue: try row.text(0)), let lane = Lane(rawValue: try row.text(1)),
            let type = PushType(rawValue: try row.text(2)), let receipts = NotificationRequest.Receipts(rawValue: try row.text(3)),
            let target = try NotificationAddress(row, from: 17)
        else { throw CorruptRow(table: "notifications") }
        return ExplanationFacts.Notification(
            id: id, state: state, lane: lane, pushType: type, target: target, receipts: receipts,
            acceptedAt: try row.timestampMilliseconds(4), notBefore: try row.optionalTimestampMilliseconds(5),
            localTime: try row.optionalText(6), expiresAt: try row.timestampMilliseconds(7), isUrgent: try row.bool(8),
            isWalked: try row.bool(9), publishedAt: try row.optionalTimestampMilliseconds(10),
            completedAt: try row.optionalTimestampMilliseconds(11), cancelledAt: try row.optionalTimestampMilliseconds(12),
            cancelReason: try row.optionalText(13), total: Int(try row.int32(14)), pending: Int(try row.int32(15)),
            namesUser: try row.bool(16))
    }
}
