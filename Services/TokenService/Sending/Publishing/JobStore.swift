package import Postgres
package import PushModel
import TokenServiceRegistry

/// The SQL of jobs on their way to the broker: a process claims jobs that are due or that another process left, finds their devices anew,
/// and records the result of publishing. An acceptance or a fan-out writes jobs with a lease of its own, so that it publishes them first.
/// It works for every app, and takes no id from a request.
package struct JobStore {
    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    private struct Claimed {
        var id: JobID
        var job: Job
        /// Positions that have their outcome.
        var ended: Set<Int>
    }

    /// Takes over jobs of a lane on which no process has a lease: of each app no more than its share. A hold that kept one is over, or puts
    /// it aside again. It reads no more than their names, so that no job keeps the others from being taken over.
    package func claim(_ count: Int, of lane: Lane, among shares: [WaitingWorkStore.Share], leaseSeconds: Double) throws -> [JobID] {
        guard count > 0, !shares.isEmpty else { return [] }
        return try session.execute(
            """
            WITH free AS (
                SELECT j.notification, j.number
                FROM unnest(\(shares.map(\.app))::bigint[], \(milliseconds: shares.map(\.from))::timestamptz[]) AS w (app, since)
                CROSS JOIN LATERAL (
                    SELECT notification, number FROM jobs
                    WHERE (published_at IS NULL) IS TRUE AND lane = \(lane) AND app_id = w.app AND free_from >= w.since
                        AND free_from <= now()
                    ORDER BY free_from LIMIT \(WaitingWorkStore.Share.size(count, among: shares.count)) FOR NO KEY UPDATE SKIP LOCKED
                ) AS j LIMIT \(count)
            )
            UPDATE jobs j SET free_from = now() + make_interval(secs => \(leaseSeconds)), held_by = NULL FROM free
            WHERE j.notification = free.notification AND j.number = free.number
            RETURNING j.notification, j.number
            """
        ).map { row in
            let number: Int32 = try row["number"]
            return JobID(notification: try row["notification"], number: Int(number))
        }
    }

    private func read(_ jobs: [JobID]) throws -> [Claimed] {
        try session.execute(
            """
            SELECT j.notification, j.number, j.locale, j.due_at, j.members, j.ended::text AS ended
            FROM unnest(\(jobs.map(\.notification))::uuid[], \(jobs.map(\.number))::bigint[]) AS e (notification, number)
            JOIN jobs j ON j.notification = e.notification AND j.number = e.number
            """
        ).map { row in
            let (number, ended): (Int32, String) = (try row["number"], try row["ended"])
            return Claimed(
                id: JobID(notification: try row["notification"], number: Int(number)),
                job: Job(
                    number: Int(number), locale: try row["locale"], dueAt: try row.milliseconds("due_at"),
                    members: Job.members(of: try row["members"])),
                ended: Set(Job.positions(in: ended)))
        }
    }

    /// The common properties of one notification's jobs beside their template.
    private struct Terms {
        /// Milliseconds.
        var lifetime: Int64?
        var isCancelled: Bool
        var isFannedOut: Bool
        /// Why a member is not meant any more. An audience means no owner.
        var gone: Stop
        var variants: [String: [UInt8]] = [:]

        init(_ row: PostgresRow) throws {
            lifetime = try row["lifetime_ms"]
            isCancelled = try row["is_cancelled"]
            isFannedOut = try row["is_fanned_out"]
            gone = try row["is_audience"] ? .leftAudience : .ownerChanged
        }
    }

    /// A member of a job, as the registry has it now.
    private struct Member {
        let token: DeviceToken
        let environment: APNsEnvironment
        let isActive: Bool
        /// The installation that has the token, and its owner's epoch.
        let installation: PushID
        let ownerEpoch: Int64
        let mayTryOtherEnvironment: Bool
        /// The notification is still for the installation's owner.
        let isMeant: Bool
        /// The installation and the owner's epoch that a notification was for that is not for the present owner.
        let addressee: (installation: PushID, ownerEpoch: Int64)?

        init(_ row: PostgresRow) throws {
            token = try row["token"]
            environment = try row["environment"]
            isActive = try row["is_active"]
            installation = try row["installation"]
            ownerEpoch = try row["owner_epoch"]
            mayTryOtherEnvironment = try row["may_try"]
            isMeant = try row["is_meant"]
            let (installation, epoch): (PushID?, Int64?) = (try row["addressed_installation"], try row["addressed_epoch"])
            if let installation, let epoch { addressee = (installation, epoch) } else { addressee = nil }
        }

        func delivery(_ id: PushID) -> PushJob.Delivery {
            PushJob.Delivery(
                id: id, token: token, environment: environment, installation: installation, ownerEpoch: ownerEpoch,
                environmentTrial: mayTryOtherEnvironment ? .allowed : .none)
        }
    }

    /// Finds the devices of claimed jobs anew. A device that is not meant any more, or is meant too late, gets that outcome instead.
    package func resolve(_ claimed: [JobID], now: Int64) throws -> [PublishableJob] {
        let jobs = try read(claimed)
        let notifications = Set(jobs.map(\.id.notification)).sorted()
        let terms = try terms(of: notifications)
        let jobsOf = Dictionary(grouping: jobs, by: \.id.notification)
        var publishable: [PublishableJob] = []
        for template in try JobTemplate.load(notifications, in: session) {
            guard let own = jobsOf[template.notification], let terms = terms[template.notification] else { continue }
            let ids = own.flatMap(\.job.members)
            let members = try members(ids, of: template.notification)
            let channels = try BroadcastMember.load(ids, in: session)
            let names = DeliveryNames(template.notification)
            for claimed in own {
                var template = template
                if let lifetime = terms.lifetime { template.end(claimed.job.dueAt + lifetime) }
                if let payload = terms.variants[claimed.job.locale] { template.payload = payload }
                // A job that is due after its expiry is taken at its expiry.
                let isOver = template.expiresAt <= max(now, claimed.job.dueAt)
                let stop: Stop? = terms.isCancelled ? .cancelled : isOver ? .expired : nil
                publishable.append(
                    claimed.job.isBroadcast
                        ? broadcast(claimed, template, channels[claimed.job.members[0]], names: names, stop: stop, now: now)
                        : publishableJob(claimed, template, terms, members, names: names, stop: stop, now: now))
            }
        }
        return publishable
    }

    private func terms(of notifications: [PushID]) throws -> [PushID: Terms] {
        var terms: [PushID: Terms] = [:]
        let rows = try session.execute(
            """
            SELECT n.id, f.lifetime_ms, n.state = 'cancelled' AS is_cancelled, f.notification IS NOT NULL AS is_fanned_out,
                coalesce(f.target IN ('tags', 'all'), false) AS is_audience
            FROM unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id
                LEFT JOIN fan_outs f ON f.notification = n.id
            """)
        for row in rows { terms[try row["id"]] = try Terms(row) }
        for row in try session.execute(Self.variants(of: notifications)) {
            let locale: String = try row["locale"]
            terms[try row["notification"]]?.variants[locale] = try row["payload"]
        }
        return terms
    }

    package static func variants(of notifications: [PushID]) -> PostgresQuery {
        """
        SELECT v.notification, v.locale, v.payload
        FROM unnest(\(notifications)::uuid[]) AS e (id)
        CROSS JOIN LATERAL (SELECT * FROM notification_variants WHERE notification = e.id ORDER BY locale) AS v
        ORDER BY v.notification, v.locale
        """
    }

    /// Why a member gets an outcome instead of a delivery.
    private enum Stop: String {
        case cancelled = "cancelled_before_publishing"
        case expired = "expired_before_publishing"
        case ownerChanged = "owner_changed"
        case leftAudience = "left_audience"
        case tokenRetired = "token_retired"
        case channelClosed = "channel_closed"

        var outcome: OutcomeClass {
            switch self {
            case .cancelled: .cancelled
            case .expired: .expired
            case .ownerChanged, .leftAudience, .tokenRetired, .channelClosed: .fenced
            }
        }
    }

    private func publishableJob(
        _ claimed: Claimed, _ template: JobTemplate, _ terms: Terms, _ members: [Int64: Member], names: DeliveryNames, stop: Stop?,
        now: Int64
    ) -> PublishableJob {
        var deliveries: [PushJob.Delivery] = []
        var stopped: [OutcomeEvent.Delivery] = []
        for (position, token) in claimed.job.members.enumerated() where !claimed.ended.contains(position) {
            let id = names.id(job: claimed.id.number, position: position)
            let member = members[token]
            if let member, member.isMeant, member.isActive, stop == nil {
                deliveries.append(member.delivery(id))
            } else {
                let reason = stop ?? (member?.isActive == false ? .tokenRetired : terms.gone)
                stopped.append(stoppedDelivery(id, of: template.notification, to: member, terms, because: reason))
            }
        }
        var job = PublishableJob(
            id: claimed.id, template: template, deliveries: EncodedDeliveries(deliveries), isOfFanOut: terms.isFannedOut)
        if !stopped.isEmpty {
            job.stopped = OutcomeEvent.stopped(stopped, as: (stop ?? terms.gone).outcome, of: template.app, at: now)
        }
        return job
    }

    /// - Parameter channel: The broadcast's channel; nil if the platform does not have it any more.
    private func broadcast(
        _ claimed: Claimed, _ template: JobTemplate, _ channel: BroadcastMember?, names: DeliveryNames, stop: Stop?, now: Int64
    ) -> PublishableJob {
        let id = names.id(job: claimed.id.number, position: 0)
        guard stop == nil, let channel, channel.isOpen else {
            let reason = stop ?? .channelClosed
            let delivery = OutcomeEvent.Delivery(
                id: id, notification: template.notification, installation: .lowest, attempt: 1, reason: reason.rawValue)
            return PublishableJob(
                id: claimed.id, template: template, deliveries: EncodedDeliveries([PushJob.Delivery]()),
                stopped: claimed.ended.isEmpty
                    ? OutcomeEvent.stopped([delivery], as: reason.outcome, of: template.app, at: now) : nil,
                isOfFanOut: true)
        }
        return PublishableJob(
            id: claimed.id, template: template.broadcast(to: channel, now: now),
            deliveries: EncodedDeliveries(claimed.ended.isEmpty ? [channel.delivery(id)] : []), isOfFanOut: true)
    }

    /// Names the installation and the owner's epoch that the delivery was for, or none if the registry does not know: never another user's.
    /// - Parameter member: The member whose delivery it was; nil if the token was erased with its user.
    private func stoppedDelivery(
        _ id: PushID, of notification: PushID, to member: Member?, _ terms: Terms, because reason: Stop
    ) -> OutcomeEvent.Delivery {
        var (installation, epoch): (PushID, Int64?) = (.lowest, nil)
        if let member {
            // An audience means no owner.
            if member.isMeant || terms.gone == .leftAudience {
                (installation, epoch) = (member.installation, member.ownerEpoch)
            } else if let addressee = member.addressee {
                (installation, epoch) = addressee
            }
        }
        return OutcomeEvent.Delivery(
            id: id, notification: notification, installation: installation, attempt: 1, ownerEpoch: epoch, reason: reason.rawValue)
    }

    /// Reads the tokens' members, by token. The addressee of a notification that is not for the present owner is in the notification if it
    /// names installations or tokens. If it names users, the history of the installations that have or had the token names the addressee.
    private func members(_ tokens: [Int64], of notification: PushID) throws -> [Int64: Member] {
        let rows = try session.execute(
            """
            SELECT m.*, addressee.installation AS addressed_installation, addressee.epoch AS addressed_epoch FROM (
                SELECT t.id, t.token, t.environment, t.state <> 'retired' AS is_active, i.id AS installation, i.owner_epoch,
                    n.id AS notification,
                    t.proven_at IS NULL AND cardinality(a.environments) > 1 AS may_try,
                    (i.deregistered_at IS NULL AND (
                        f.target = 'all' OR audience_words(i.tags, i.permission) @@ f.query
                        OR EXISTS (
                            SELECT FROM addressees x WHERE x.app_id = n.app_id AND x.notification = n.id AND x.owner = i.owner)
                        OR EXISTS (
                            SELECT FROM addressees x WHERE x.app_id = n.app_id AND x.notification = n.id AND x.installation = i.id
                                AND x.owner_epoch = i.owner_epoch AND (x.token IS NULL OR x.token = t.token))
                        OR f.target = 'channel_and_activities' AND EXISTS (
                            SELECT FROM activities x
                            WHERE x.app_id = n.app_id AND x.owned_by = activity_owner(i.owner, i.id)
                                AND x.id = substr(t.purpose, 10)))) IS TRUE AS is_meant
                FROM notifications n JOIN apps a ON a.id = n.app_id LEFT JOIN fan_outs f ON f.notification = n.id
                CROSS JOIN LATERAL (SELECT * FROM tokens t WHERE t.id = ANY (\(tokens)) ORDER BY t.id) AS t
                JOIN installations i ON i.app_id = t.app_id AND i.id = t.installation
                WHERE n.id = \(notification) AND t.app_id = n.app_id
            ) AS m LEFT JOIN LATERAL (
                SELECT named.installation, named.epoch
                FROM notifications n, LATERAL (
                    SELECT array_agg(h.installation) || m.installation AS ids FROM installation_history h
                    WHERE h.token_id = m.id AND h.event = 'token_moved_away' AND h.at >= n.accepted_at - interval '10 seconds'
                ) AS holders, LATERAL (
                    SELECT x.installation, x.owner_epoch AS epoch FROM addressees x
                    WHERE x.app_id = n.app_id AND x.notification = n.id AND x.installation = ANY (holders.ids)
                        AND (x.token IS NULL OR x.token = m.token)
                    UNION ALL (
                        SELECT h.installation, h.owner_epoch FROM unnest(holders.ids) AS holder (id) CROSS JOIN LATERAL (
                            SELECT * FROM installation_history o
                            WHERE o.app_id = n.app_id AND o.installation = holder.id AND o.owner_epoch IS NOT NULL AND EXISTS (
                                SELECT FROM addressees x WHERE x.app_id = n.app_id AND x.notification = n.id AND x.owner = o.owner)
                            ORDER BY o.id DESC LIMIT 1
                        ) AS h ORDER BY h.id DESC LIMIT 1)
                ) AS named
                WHERE n.id = m.notification AND NOT m.is_meant LIMIT 1
            ) AS addressee ON true
            """)
        var members: [Int64: Member] = [:]
        for row in rows { members[try row["id"]] = try Member(row) }
        return members
    }

    // MARK: Settling

    /// Published jobs are done. Any process may publish the others, a moment later.
    func record(_ jobs: [PublishedJob]) throws {
        guard !jobs.isEmpty else { return }
        try session.execute(
            """
            WITH locked AS (
                SELECT j.notification, j.number, e.is_published
                FROM unnest(\(jobs.map(\.id.notification))::uuid[], \(jobs.map(\.id.number))::bigint[], \(jobs.map(\.isPublished))::bool[])
                    AS e (notification, number, is_published)
                JOIN jobs j ON j.notification = e.notification AND j.number = e.number
                ORDER BY j.notification, j.number FOR NO KEY UPDATE OF j
            )
            UPDATE jobs j SET published_at = CASE WHEN l.is_published THEN now() END,
                free_from = CASE WHEN l.is_published THEN j.free_from ELSE now() + interval '1 second' END
            -- Not by the index on what is unpublished, which is small only while nothing waits.
            FROM locked l WHERE j.notification = l.notification AND j.number = l.number
                AND coalesce(j.published_at, 'infinity') = 'infinity'
            """)
    }

    /// Claimed jobs that cannot be read are free again after as long as they have been due, a minute at least and an hour at most.
    package func putOff(_ jobs: [JobID]) throws {
        guard !jobs.isEmpty else { return }
        try session.execute(
            """
            WITH locked AS (
                SELECT j.notification, j.number
                FROM unnest(\(jobs.map(\.notification))::uuid[], \(jobs.map(\.number))::bigint[]) AS e (notification, number)
                JOIN jobs j ON j.notification = e.notification AND j.number = e.number
                ORDER BY j.notification, j.number FOR NO KEY UPDATE OF j
            )
            UPDATE jobs j SET free_from = now() + CASE WHEN isfinite(j.due_at)
                THEN least(greatest(now() - j.due_at, interval '1 minute'), interval '1 hour') ELSE interval '1 hour' END
            FROM locked l
            WHERE j.notification = l.notification AND j.number = l.number AND coalesce(j.published_at, 'infinity') = 'infinity'
            """)
    }

    /// Renews the leases on jobs that this process publishes.
    package func renew(_ jobs: [JobID], seconds: Double) throws {
        guard !jobs.isEmpty else { return }
        try session.execute(
            """
            WITH locked AS (
                SELECT j.notification, j.number
                FROM unnest(\(jobs.map(\.notification))::uuid[], \(jobs.map(\.number))::bigint[]) AS e (notification, number)
                JOIN jobs j ON j.notification = e.notification AND j.number = e.number
                ORDER BY j.notification, j.number FOR NO KEY UPDATE OF j
            )
            UPDATE jobs j SET free_from = now() + make_interval(secs => \(seconds)) FROM locked l
            WHERE j.notification = l.notification AND j.number = l.number AND coalesce(j.published_at, 'infinity') = 'infinity'
            """)
    }

    // MARK: Waiting for a dispatcher

    /// Finds the jobs of which a delivery has an outcome or had an attempt, and those that do not exist any more.
    func workedOn(_ jobs: [JobID]) throws -> Set<JobID> {
        let rows = try session.execute(
            """
            SELECT e.place FROM unnest(\(jobs.map(\.notification))::uuid[], \(jobs.map(\.number))::bigint[])
                WITH ORDINALITY AS e (notification, number, place)
            LEFT JOIN jobs j ON j.notification = e.notification AND j.number = e.number
            LEFT JOIN LATERAL (
                SELECT true AS is_tried FROM receipts WHERE notification = e.notification AND number = e.number LIMIT 1
            ) AS r ON true
            WHERE j.notification IS NULL OR j.ended <> B'0'::bit(100) OR r.is_tried
            """)
        return Set(try rows.map { row in jobs[Int(try row["place"] as Int64) - 1] })
    }

    /// Some jobs of each minute, by lane and the oldest first: of the notifications accepted in a minute the first ten jobs and the last
    /// ten.
    func publishedWithinADay() throws -> [Lane: [WaitingJobs.Job]] {
        let rows = try session.execute(
            """
            SELECT j.notification, j.number, j.lane, j.published_at, n.expires_at
            FROM generate_series(now() - interval '1 day', now(), interval '1 minute') AS minute (began)
            CROSS JOIN LATERAL (
                (SELECT notification, number, lane, published_at FROM jobs
                    WHERE notification >= first_id_at(minute.began) AND notification < first_id_at(minute.began + interval '1 minute')
                    ORDER BY notification, number LIMIT 10)
                UNION
                (SELECT notification, number, lane, published_at FROM jobs
                    WHERE notification >= first_id_at(minute.began) AND notification < first_id_at(minute.began + interval '1 minute')
                    ORDER BY notification DESC, number DESC LIMIT 10)
            ) AS j
            JOIN notifications n ON n.id = j.notification
            WHERE j.published_at IS NOT NULL ORDER BY j.published_at
            """)
        var jobs: [Lane: [WaitingJobs.Job]] = [:]
        for row in rows {
            let number: Int32 = try row["number"]
            guard let lane = Lane(rawValue: try row["lane"]) else { continue }
            jobs[lane, default: []].append(
                WaitingJobs.Job(
                    id: JobID(notification: try row["notification"], number: Int(number)),
                    publishedAt: try row.milliseconds("published_at"), expiresAt: try row.milliseconds("expires_at")))
        }
        return jobs
    }
}
