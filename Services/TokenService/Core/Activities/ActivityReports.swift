import Postgres
import PushModel

/// The Live Activities that devices report in one transaction of the registry.
struct ActivityReports {
    private var activities: [LiveActivity.Key: LiveActivity]
    /// Of their newest notifications, those that were not cancelled and have not expired.
    private let sendable: Set<PushID>

    /// Locks them, before any installation.
    init(_ requests: [RegistryRequest], in session: PostgresSession) throws {
        let keys = requests.compactMap { request in
            request.change.activityReport.map { LiveActivity.Key(app: request.app.id, id: $0.id) }
        }
        activities = keys.isEmpty ? [:] : try ActivityStore(session: session).lockOrReserve(keys)
        let newest = activities.values.compactMap(\.line.newest)
        let found: [PushID] =
            newest.isEmpty
            ? []
            : try session.execute(
                "SELECT id FROM notifications WHERE id = ANY (\(newest)) AND state <> 'cancelled' AND expires_at > now()"
            ).column("id")
        sendable = Set(found)
    }

    /// To run after the registry's own writes: an update that waited for the token goes, the newest one goes again if the token came after
    /// it, and a device of another user than the activity's ends it.
    mutating func writes(_ reports: [(app: App, report: ActivityReport)], batch: RegistryBatch) -> [PostgresQuery] {
        var changed: Set<LiveActivity.Key> = []
        var (released, places, later): ([PushID], [ActivityEnd.Place], [PostgresQuery]) = ([], [], [])
        var copies: [(original: PushID, copy: PushID)] = []
        for (app, report) in reports {
            let key = LiveActivity.Key(app: app.id, id: report.id)
            let installation = InstallationKey(app: app.id, id: report.installation)
            guard let row = batch.installations[installation] else { continue }
            let owner = LiveActivity.Owner(user: row.owner, installation: report.installation)
            guard report.token != nil else {
                if activities[key]?.owner == owner { later.append(Self.endWithoutDevice(key)) }
                continue
            }
            var activity =
                activities[key] ?? LiveActivity(key: key, owner: owner, attributesType: report.attributesType, startedAt: batch.now)
            let (isFirst, copy) = (activity.reportedAt == nil, PushID.timeOrdered(milliseconds: batch.now))
            if activity.reported(by: owner, hasFrequentUpdates: report.hasFrequentUpdates, now: batch.now) {
                if activity.line.isWaiting, let newest = activity.line.newest { released.append(newest) }
                if let channel = report.channel { later.append(Self.follow(key, channel)) }
                if !isFirst, batch.hasAddedToken(of: .activity(id: report.id), to: installation),
                    let original = activity.renew(as: copy, ofThese: sendable, now: batch.now)
                {
                    copies.append((original, copy))
                }
            } else {
                places.append(ActivityEnd.Place(installation: installation, purpose: .activity(id: report.id)))
            }
            activities[key] = activity
            changed.insert(key)
        }
        let rows = changed.sorted().compactMap { activities[$0] }
        return ActivityStore.copy(copies) + ActivityStore.save(rows) + UpdateTargetStore.release(released) + ActivityEnd.insert(places)
            + later
    }

    /// The row lock keeps a request from deleting the channel meanwhile.
    private static func follow(_ key: LiveActivity.Key, _ channel: String) -> PostgresQuery {
        """
        WITH followed AS (
            SELECT id FROM channels WHERE app_id = \(key.app) AND name = \(channel) AND state = 'open' FOR KEY SHARE
        )
        UPDATE activities a SET channel = f.id FROM followed f
        WHERE a.app_id = \(key.app) AND a.id = \(key.id) AND a.channel IS DISTINCT FROM f.id
        """
    }

    /// The last device has reported that it is over. It may still show the last state.
    private static func endWithoutDevice(_ key: LiveActivity.Key) -> PostgresQuery {
        """
        UPDATE activities a SET ended_at = coalesce(a.ended_at, now())
        WHERE a.app_id = \(key.app) AND a.id = \(key.id) AND NOT may_be_shown(a)
        """
    }
}

extension RegistryBatch {
    fileprivate func hasAddedToken(of purpose: Purpose, to installation: InstallationKey) -> Bool {
        history.contains { entry in
            (entry.event == .tokenAdded || entry.event == .tokenMovedHere) && entry.installation == installation.id
                && entry.app == installation.app && entry.token?.purpose == purpose.rawValue
        }
    }
}

extension RegistryChange {
    var activityReport: ActivityReport? { if case .report(let report) = self { report } else { nil } }
}
