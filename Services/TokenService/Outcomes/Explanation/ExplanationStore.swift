package import Postgres
package import PushModel
package import TokenServiceApps
import TokenServiceRegistry
import TokenServiceSending

/// The SQL that reads the events of one notification for one user.
package struct ExplanationStore {
    /// Installations of one user that the explanation reads.
    package static let maximumInstallations = 100

    private let session: PostgresSession
    let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// Several statements: the transaction must be of isolation `.repeatableRead`.
    /// - Returns: nil where the app has no such notification.
    package func facts(of id: PushID, user: String) throws -> ExplanationFacts? {
        let first = try session.pipeline([row(of: id, user: user), stays(of: user), current(user), holds(on: id)])
        guard let notification = try first[0].first.map({ row in try ExplanationFacts.Notification(row) }) else { return nil }
        var times: [PushID: [Int64: ExplanationFacts.Time]] = [:]
        for row in first[1] {
            times[try row["installation"], default: [:]][try row["owner_epoch"]] = ExplanationFacts.Time(
                from: try row.milliseconds("began_at"), to: try row.milliseconds("ended_at"), isNow: false)
        }
        for row in first[2] {
            let (id, epoch): (PushID, Int64) = (try row["id"], try row["owner_epoch"])
            let from = times[id]?[epoch]?.from
            times[id, default: [:]][epoch] = ExplanationFacts.Time(from: from, to: nil, isNow: true)
        }
        // Present installations of the user come before former ones.
        let ids = times.sorted { left, right in
            let (isLeft, isRight) = (left.value.values.contains { $0.isNow }, right.value.values.contains { $0.isNow })
            return isLeft == isRight ? left.key < right.key : isLeft
        }.prefix(Self.maximumInstallations).map(\.key).sorted()
        var facts = ExplanationFacts(
            user: user, notification: notification,
            quietHours: try QuietHoursStore(session: session, app: app).find(user),
            installations: ids.map { ExplanationFacts.Installation(id: $0, times: times[$0] ?? [:]) })
        facts.isCutShort = times.count > ids.count
        facts.holds = try first[3].map { row in try ExplanationFacts.Hold(row) }
        facts.credentials = try CredentialStore(session: session, app: app).credentials()
        if !ids.isEmpty { try load(ids, into: &facts) }
        return facts
    }

    private func load(_ ids: [PushID], into facts: inout ExplanationFacts) throws {
        let notification = facts.notification
        let resolvedAt = notification.expandedAt ?? notification.cancelledAt ?? notification.expiresAt
        let answers = try session.pipeline([
            states(of: ids, for: notification.id), tokens(of: ids, for: notification.purpose),
            receipts(of: ids, for: notification.id), fences(of: ids, since: notification.acceptedAt),
            history(of: ids, since: notification.acceptedAt), doubts(of: ids, for: notification.purpose, until: resolvedAt),
        ])
        var byID = Dictionary(uniqueKeysWithValues: facts.installations.map { ($0.id, $0) })
        for row in answers[0] {
            let id: PushID = try row["id"]
            try byID[id]?.set(row)
        }
        var holders: [Int64: PushID] = [:]
        for row in answers[1] {
            let (token, installation): (ReachabilityState.Token, PushID) = (try ReachabilityState.Token(row), try row["installation"])
            byID[installation]?.tokens.append(token)
            holders[token.id] = installation
        }
        for row in answers[2] {
            let delivery = try ExplanationFacts.Delivery(receipt: row)
            byID[delivery.record.installation]?.deliveries.append(delivery)
        }
        for row in answers[3] {
            let id: PushID = try row["installation"]
            byID[id]?.fences.append(
                ExplanationFacts.Fence(
                    epochsBelow: try row["epochs_below"], at: try row.milliseconds("created_at"),
                    publishedAt: try row.milliseconds("published_at")))
        }
        for row in answers[4] {
            let entry = try HistoryEntry(row)
            byID[entry.installation]?.history.append(entry)
        }
        for row in answers[5] {
            let entry = try HistoryEntry(row)
            byID[entry.installation]?.doubts.append(entry)
        }
        try loadMembers(of: notification, holders: holders, into: &byID, facts: &facts)
        facts.installations = ids.compactMap { byID[$0] }
    }

    /// Deliveries that have no receipt.
    private func loadMembers(
        of notification: ExplanationFacts.Notification, holders: [Int64: PushID],
        into installations: inout [PushID: ExplanationFacts.Installation], facts: inout ExplanationFacts
    ) throws {
        // A job cannot hold a token that was retired before. A token that moved away later was meant at its old installation.
        var holders = holders.filter { id, holder in
            installations[holder]?.tokens.contains { $0.id == id && ($0.retired?.at ?? .max) >= notification.acceptedAt } ?? false
        }
        for installation in installations.values {
            for move in installation.history where move.event == .tokenMovedAway && move.at > notification.expandedAt ?? .max {
                if let token = move.token?.id { holders[token] = installation.id }
            }
        }
        let places = try MemberSearch(session: session, app: app).places(of: Set(holders.keys), in: notification.id)
        let answers = try session.pipeline([members(places, of: notification.id), jobHorizon(of: notification.id)])
        for row in answers[0] {
            let (token, isSettled): (Int64, Bool) = (try row["token_id"], try row["is_settled"])
            guard let holder = holders[token] else { continue }
            if !isSettled {
                installations[holder]?.deliveries.append(try ExplanationFacts.Delivery(member: row, of: holder))
            } else if notification.receipts == .failures {
                installations[holder]?.counted.append(
                    ExplanationFacts.CountedDelivery(
                        tokenID: token, dueAt: try row.milliseconds("due_at"), publishedAt: try row.milliseconds("published_at")))
            }
        }
        if !answers[1].isEmpty { facts.isCutShort = true }
    }
}

extension ExplanationFacts.Installation {
    fileprivate mutating func set(_ row: PostgresRow) throws {
        signedOutReason = try row["signed_out_reason"]
        deregisteredAt = try row.milliseconds("deregistered_at")
        throttledUntil = try row.milliseconds("throttled_until")
        permission = try row["permission"]
        isNamed = try row["is_named"]
        namedEpoch = try row["named_epoch"]
        matchesTags = try row["matches_tags"]
        isLeftOutByPermission = try matchesTags == false && row["matches_with_another_permission"]
        localDueAt = try row.milliseconds("local_due_at")
        isAhead = try row["is_ahead"]
    }
}

extension ExplanationFacts.Delivery {
    fileprivate init(receipt row: PostgresRow) throws {
        let epoch: Int64 = try row["owner_epoch"]
        self.init(
            record: try NotificationStatus.Delivery(row, token: row["token"]), ownerEpoch: epoch > 0 ? epoch : nil,
            tokenID: try row["token_id"], dueAt: try row.milliseconds("due_at"), publishedAt: try row.milliseconds("published_at"))
    }

    /// One that is under way without a receipt.
    fileprivate init(member row: PostgresRow, of installation: PushID) throws {
        let dueAt: Int64 = try row.milliseconds("due_at")
        let record = NotificationStatus.Delivery(
            id: try row["id"], installation: installation, token: try row["token"], environment: try row["environment"], attempts: 0,
            updatedAt: dueAt)
        self.init(
            record: record, ownerEpoch: nil, tokenID: try row["token_id"], dueAt: dueAt, publishedAt: try row.milliseconds("published_at"))
    }
}

extension ExplanationFacts.Hold {
    fileprivate init(_ row: PostgresRow) throws {
        guard let scope = HoldScope(app: try row["app"], lane: try row["lane"], notification: try row["notification"]) else {
            throw CorruptRow(table: "holds")
        }
        self.init(
            id: try row["id"], scope: scope, reason: try row["reason"], setAt: try row.milliseconds("set_at"),
            endsAt: try row.milliseconds("ends_at"))
    }
}

extension ExplanationFacts.Notification {
    fileprivate init(_ row: PostgresRow) throws {
        self.init(
            id: try row["id"], state: try row["state"], lane: try row["lane"], pushType: try row["push_type"], purpose: try row["purpose"],
            target: try NotificationAddress(row), receipts: try row["receipts"], acceptedAt: try row.milliseconds("accepted_at"),
            notBefore: try row.milliseconds("not_before"), localTime: try row["local_text"], expiresAt: try row.milliseconds("expires_at"),
            isUrgent: try row["is_urgent"], isFannedOut: try row["is_fanned_out"], expandedAt: try row.milliseconds("expanded_at"),
            completedAt: try row.milliseconds("completed_at"), cancelledAt: try row.milliseconds("cancelled_at"),
            cancelReason: try row["cancel_reason"], total: try row["total"], pending: try row["pending"],
            namesUser: try row["names_user"])
    }
}
