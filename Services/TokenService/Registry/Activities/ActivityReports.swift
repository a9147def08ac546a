import Postgres
import PushModel
import TokenServiceApps
import TokenServiceKit

/// The Live Activities that devices report in one transaction of the registry.
struct ActivityReports {
    /// A report that the registry has taken. Its activity belongs to the user who was signed in on the installation then.
    struct Taken {
        let report: ActivityReport
        /// A registration lists the token. It makes no activity, because it does not say of which type.
        let isListed: Bool
        let installation: InstallationKey
        let key: UpdateTarget.Key
        fileprivate let ownerEpoch: Int64

        /// - Parameters:
        ///   - record: The installation after the request.
        ///   - batch: After all requests. Each registration of a device lists the same tokens, so only new ones count.
        static func all(of request: RegistryRequest, _ record: InstallationRecord, in batch: RegistryBatch) -> [Taken] {
            let isListed = !request.change.isActivityReport
            return request.change.activityReports.compactMap { report in
                if isListed, !batch.hasAddedToken(of: .activity(id: report.id), to: request.installation) { return nil }
                return Taken(
                    report: report, isListed: isListed, installation: request.installation,
                    key: UpdateTarget.Key(
                        app: request.app.id, owner: .init(user: record.user, installation: report.installation), id: report.id),
                    ownerEpoch: record.ownerEpoch)
            }
        }

        fileprivate func newActivity(at now: Int64) -> UpdateTarget? {
            isListed ? nil : UpdateTarget(key: key, attributesType: report.attributesType, startedAt: now)
        }
    }

    private var activities: [UpdateTarget.Key: UpdateTarget]
    /// The activities' newest notifications that may be copied: neither they nor the notifications that they are copies of were cancelled,
    /// and they have not expired.
    private var sendable: Set<PushID> = []
    /// Activities of these names were started for former users of the installations that report them.
    private var ofFormerUsers: [UpdateTarget.Key: String] = [:]
    private let session: PostgresSession

    /// Locks the activities that exist, before any installation. A listed token that another transaction retires meanwhile is new again:
    /// its activity is locked with ``lock(_:in:)``.
    init(_ requests: [RegistryRequest], in session: PostgresSession) throws {
        activities = try UpdateTargetStore(session: session).lockReported(
            requests.flatMap { request in
                request.change.activityReports.map { report in
                    UpdateTargetStore.Reported(
                        installation: request.installation, purpose: .activity(id: report.id), id: report.id,
                        listed: request.change.isActivityReport ? nil : report.token?.token)
                }
            })
        self.session = session
    }

    /// An app reports a token late, or mixes activities up: the end that goes to a device which shows an activity that is over must not go
    /// to the token of another one.
    /// - Throws: ``ActivityOver``.
    func admit(_ request: RegistryRequest, in batch: RegistryBatch) throws {
        guard case .report(let report) = request.change, let named = report.token,
            let row = batch.installations[request.installation],
            let activity = activities[
                UpdateTarget.Key(
                    app: request.app.id, owner: .init(user: row.owner, installation: report.installation), id: report.id)],
            activity.isOver(at: batch.now)
        else { return }
        if batch.hasOtherActivity(than: report.id, with: named.token, at: request.installation) { throw ActivityOver() }
    }

    /// Runs when the registry has decided, before its writes. It locks the names of the activities that are to be made, and the activities
    /// of a user who has signed in since the first look. Such a lock comes out of order; in the worst case PostgreSQL ends one of two
    /// transactions, and it runs again.
    mutating func lock(_ reports: [Taken], in batch: RegistryBatch) throws {
        guard !reports.isEmpty else { return }
        let missing = Set(reports.map(\.key)).filter { activities[$0] == nil }.sorted()
        activities.merge(try UpdateTargetStore(session: session).reserve(missing)) { first, _ in first }
        let newest = activities.values.compactMap(\.queue.newest)
        if !newest.isEmpty {
            let found: [PushID] = try session.execute(
                """
                SELECT n.id FROM notifications n
                WHERE n.id = ANY (\(newest)) AND n.state <> 'cancelled' AND n.expires_at > now()
                    AND (SELECT c.reason FROM cancellations c WHERE c.notification = n.copy_of) IS DISTINCT FROM 'cancelled'
                """
            ).column("id")
            sendable = Set(found)
        }
        try findChannelEnds(of: reports.filter { $0.report.token != nil && activities[$0.key] != nil })
        try findFormerUsers(of: reports.filter { $0.report.token != nil && activities[$0.key] == nil }, in: batch)
    }

    /// A report may name another channel than the activity follows. The end that was sent to it counts.
    private mutating func findChannelEnds(of reports: [Taken]) throws {
        let naming = reports.compactMap { taken in taken.report.channel.map { (key: taken.key, channel: $0) } }
        guard !naming.isEmpty else { return }
        let rows = try session.execute(
            """
            SELECT e.index, q.ended_at
            FROM unnest(\(Array(naming.indices))::bigint[], \(naming.map(\.key.app))::bigint[], \(naming.map(\.channel))::text[])
                AS e (index, app_id, name)
            JOIN update_targets q ON q.app_id = e.app_id AND q.owned_by = 'channel' AND q.id = e.name ORDER BY e.index
            """)
        for row in rows {
            let index: Int = try row["index"]
            activities[naming[index].key]?.channelEndedAt = try row.milliseconds("ended_at")
        }
    }

    /// A device may get a start after its user has left, and then reports the activity for the next user. The start of the backend says
    /// whose it is. An activity that a device made counts for no other user: its name may be guessed.
    private mutating func findFormerUsers(of reports: [Taken], in batch: RegistryBatch) throws {
        guard !reports.isEmpty else { return }
        let rows = try session.execute(
            """
            SELECT e.index, h.owner
            FROM unnest(\(Array(reports.indices))::bigint[], \(reports.map(\.key.app))::bigint[], \(reports.map(\.installation.id))::uuid[])
                AS e (index, app_id, installation)
            CROSS JOIN LATERAL (
                SELECT id, owner FROM installation_history
                WHERE app_id = e.app_id AND installation = e.installation AND at > now() - interval '12 hours'
                    AND event IN ('signed_out', 'deregistered') ORDER BY id DESC LIMIT 100
            ) AS h WHERE h.owner IS NOT NULL ORDER BY h.id
            """)
        var left = try rows.map { row in (report: reports[try row["index"]], user: try row["owner"] as String) }
        // The lines of this transaction come later.
        left += reports.flatMap { report in batch.usersWhoLeft(report.installation, before: report.ownerEpoch).map { (report, $0) } }
        guard !left.isEmpty else { return }
        let found = try session.execute(
            """
            SELECT e.index
            FROM unnest(\(Array(left.indices))::bigint[], \(left.map(\.report.key.app))::bigint[], \(left.map(\.user))::text[],
                    \(left.map(\.report.key.id))::text[])
                AS e (index, app_id, owner, id)
            CROSS JOIN LATERAL (
                SELECT is_started_for_user, lives_until(o) AS ends_at FROM activities o
                WHERE app_id = e.app_id AND owned_by = activity_owner(e.owner, NULL) AND id = e.id LIMIT 1
            ) AS a WHERE a.is_started_for_user AND a.ends_at > now() - interval '4 hours' ORDER BY e.index
            """)
        for row in found {
            let (report, user) = left[try row["index"]]
            ofFormerUsers[report.key] = user
        }
    }

    /// Makes the statements that run after the registry's own writes: an update that waited for the token goes, and the newest one goes
    /// again if the token came after it. An activity that is over, or a former user's, ends on the device, once for each token: its earlier
    /// tokens got the end already. A token that a registration lists for another activity, too, gets none: it would end that one.
    mutating func writes(_ reports: [Taken], batch: RegistryBatch) -> [PostgresQuery] {
        var changed: Set<UpdateTarget.Key> = []
        var (released, places, later): ([PushID], [ActivityEnd.Place], [PostgresQuery]) = ([], [], [])
        var copies: [(original: PushID, copy: PushID)] = []
        for taken in reports {
            let (key, report, purpose) = (taken.key, taken.report, Purpose.activity(id: taken.key.id))
            guard let token = report.token?.token else {
                if activities[key] != nil { later.append(Self.endWithoutDevice(key, told: taken.installation.id)) }
                continue
            }
            let isTokenNew = batch.hasAddedToken(of: purpose, to: taken.installation)
            let mayEnd = isTokenNew && !batch.hasOtherActivity(than: key.id, with: token, at: taken.installation)
            if let former = ofFormerUsers[key] {
                if mayEnd { places.append(ActivityEnd.Place(installation: taken.installation, user: former, purpose: purpose)) }
                continue
            }
            guard var activity = activities[key] ?? taken.newActivity(at: batch.now) else { continue }
            let (isFirst, copy) = (activity.reportedAt == nil, PushID.timeOrdered(milliseconds: batch.now))
            // An end that waits for the first token goes there. After an end that expired, or an end without a sender, none waits.
            let isWaiting = activity.queue.isWaiting && activity.queue.newest.map { sendable.contains($0) } ?? false
            if let channel = report.channel { later.append(Self.follow(key, channel)) }
            if activity.reported(hasFrequentUpdates: report.hasFrequentUpdates, now: batch.now), activity.endedAt == nil || isWaiting {
                if activity.queue.isWaiting, let newest = activity.queue.newest { released.append(newest) }
                if !isFirst, isTokenNew, let original = activity.renew(as: copy, ofThese: sendable, now: batch.now) {
                    copies.append((original, copy))
                }
            } else if mayEnd {
                places.append(ActivityEnd.Place(installation: taken.installation, user: key.owner.user, purpose: purpose))
            }
            activities[key] = activity
            changed.insert(key)
        }
        let rows = changed.sorted().compactMap { activities[$0] }
        return UpdateTargetStore.copy(copies) + UpdateTargetStore.save(rows) + UpdateTargetStore.release(released)
            + ActivityEnd.insert(places)
            + later
    }

    /// The row lock keeps a request from deleting the channel meanwhile. One that Apple has not created yet, or does not have any more, may
    /// be open later. One that was deleted may have ended the activity before.
    private static func follow(_ key: UpdateTarget.Key, _ channel: String) -> PostgresQuery {
        """
        WITH kept AS (
            SELECT state FROM channels WHERE app_id = \(key.app) AND name = \(channel) FOR KEY SHARE
        ), followed AS (
            SELECT q.ordinal FROM update_targets q LEFT JOIN kept k ON true
            WHERE q.app_id = \(key.app) AND q.owned_by = 'channel' AND q.id = \(channel) AND k.state IS DISTINCT FROM 'failed'
        )
        UPDATE activities a SET channel = f.ordinal FROM followed f
        WHERE a.app_id = \(key.app) AND a.owned_by = activity_owner(\(key.owner.user), \(key.owner.installation)) AND a.id = \(key.id)
            AND a.channel IS DISTINCT FROM f.ordinal
        """
    }

    /// The last device has reported that it is over. It may still show the last state. An update that waits goes nowhere.
    /// - Parameter told: The installation that has just said so. It may have got the start and not reported a token. If it has reported an
    ///   earlier activity of the id, it may mean that one.
    private static func endWithoutDevice(_ key: UpdateTarget.Key, told: PushID) -> PostgresQuery {
        """
        UPDATE activities a SET ended_at = now(), newest = CASE WHEN NOT a.is_waiting THEN a.newest END, is_waiting = false
        WHERE a.app_id = \(key.app) AND a.owned_by = activity_owner(\(key.owner.user), \(key.owner.installation)) AND a.id = \(key.id)
            AND (a.ended_at IS NULL AND NOT may_be_shown(a, \(told))) IS TRUE
        """
    }
}

/// A report of an activity that is over names the update token of another one. Nothing was changed.
struct ActivityOver: ProblemError {
    var problem: APIError {
        APIError(
            .activityOver,
            "the activity is over, and the token is that of another activity of the installation; nothing was changed")
    }
}

extension RegistryBatch {
    /// The users whose epochs at the installation the batch ends, of those before this epoch, in order.
    fileprivate func usersWhoLeft(_ installation: InstallationKey, before epoch: Int64) -> [String] {
        history.compactMap { entry in
            guard entry.event == .signedOut || entry.event == .deregistered, entry.app == installation.app,
                entry.installation == installation.id, entry.ownerEpoch.map({ $0 < epoch }) ?? false
            else { return nil }
            return entry.owner
        }
    }

    /// Whether the token is also the update token of another activity there.
    fileprivate func hasOtherActivity(than id: String, with token: DeviceToken, at installation: InstallationKey) -> Bool {
        indices(of: installation).contains { index in
            guard tokens[index].isActive, tokens[index].token == token, case .activity(let other) = tokens[index].purpose else {
                return false
            }
            return !other.hasSameBytes(as: id)
        }
    }

    fileprivate func hasAddedToken(of purpose: Purpose, to installation: InstallationKey) -> Bool {
        history.contains { entry in
            (entry.event == .registered || entry.event == .tokenAdded || entry.event == .tokenMovedHere)
                && entry.installation == installation.id && entry.app == installation.app && entry.token?.purpose == purpose.rawValue
        }
    }
}

extension RegistryChange {
    /// What it says of Live Activities. A registration that lists an update token reports it.
    var activityReports: [ActivityReport] {
        switch self {
        case .report(let report): [report]
        case .register(let registration): Self.reports(in: registration.tokens, of: registration.installation)
        case .patch(let patch): Self.reports(in: patch.tokens ?? [], of: patch.installation)
        default: []
        }
    }

    fileprivate var isActivityReport: Bool { if case .report = self { true } else { false } }

    private static func reports(in tokens: [RegisteredToken], of installation: PushID) -> [ActivityReport] {
        tokens.compactMap { token in
            guard case .activity(let id) = token.purpose else { return nil }
            return ActivityReport(installation: installation, id: id, token: token, expectedOwner: .anyone)
        }
    }
}
