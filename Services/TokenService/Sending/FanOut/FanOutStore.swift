package import Postgres
package import PushModel
import TokenServiceKit
import TokenServiceRegistry

/// The SQL of fan-out: the devices of the target, page by page, and their jobs.
/// It works for every app, and takes no id from a request.
package struct FanOutStore {
    /// Installations of an app that one page reads by default, meant or not, so that a page stays short even if few are meant.
    package static let installationsOfPage = 10_000
    /// Entries of a list that one page reads.
    package static let entriesOfPage = 500
    /// A user with more installations has pages of their own in a list, and each Live Activity of the user among those of a channel.
    package static let installationsOfUser = 100

    /// The limit for an expression's tags: if about more installations of all apps together have them, fan-out goes through the app's
    /// installations instead. ``taggedInstallations(of:tags:count:)`` has the number as a literal.
    package static let maximumRare = 50_000
    /// Jobs whose members are read at once: up to 800 kB.
    private static let jobsRead = 1000
    /// How many sets of an expression's tags are compared as a way into the index.
    private static let maximumCandidates = 4

    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// - Returns: nil where its fan-out is over, or it was stopped.
    package func fanOut(of notification: PushID) throws -> PendingFanOut? {
        let answers = try session.pipeline([Self.select(notification), JobStore.variants(of: [notification])])
        guard let row = answers[0].first, let template = try JobTemplate.load([notification], in: session).first else { return nil }
        let variants = try answers[1].map { row in RenderedContent.Variant(locale: try row["locale"], payload: try row["payload"]) }
        let (entries, jobs, window): (Int32?, Int32, Int32) = (
            try row["entries"], try row["jobs"], try row["activity_window_seconds"]
        )
        var fanOut = PendingFanOut(
            template: template, app: try row["app_id"], purpose: try row["purpose"],
            content: RenderedContent(payload: template.payload, variants: variants),
            lifetime: try row["lifetime_ms"], mayTryOtherEnvironment: try row["may_try"],
            entries: entries.map(Int64.init), rareTags: try rareTags(of: row["tags"]), isEverybody: try row["is_everybody"],
            beganAt: try row.milliseconds("began_at"),
            checkpoint: PendingFanOut.Checkpoint(
                position: try row["checkpoint"], installation: try row["checkpoint_installation"], jobs: Int(jobs)),
            activityWindow: Int64(window) * 1000)
        fanOut.updates = try UpdateTarget.Key(row)
        if let key = fanOut.updates, key.isChannel {
            fanOut.channel = try BroadcastMember.load(key, in: session)
            fanOut.includesActivities = try row["includes_activities"]
        }
        return fanOut
    }

    private func rareTags(of text: String?) throws -> [String]? {
        // NULL also if an earlier page found out that they are common.
        guard let text, let expression = TagExpression.stored(text) else { return nil }
        let candidates = expression.neededAlternatives.prefix(Self.maximumCandidates)
        guard !candidates.isEmpty else { return nil }
        let estimates: [Int] = try session.pipeline(candidates.map { InstallationStore.estimateTagged($0) }).map {
            try $0.only()["estimate"]
        }
        return zip(candidates, estimates).filter { $1 <= Self.maximumRare }.min { $0.1 < $1.1 }?.0
    }

    /// Reads the next page. To run in one view of the database: a page is put together from several answers.
    /// - Parameters:
    ///   - previous: The page before, if it may not be committed yet.
    ///   - now: UNIX milliseconds.
    package func page(
        of fanOut: PendingFanOut, after previous: PendingFanOut.Page? = nil, installations: Int = installationsOfPage, names: DeliveryNames,
        now: Int64
    ) throws -> PendingFanOut.Page {
        if let columns = try columns(of: fanOut, installations: installations, now: now) {
            return try fanOut.page(of: columns, names: names, now: now)
        }
        return try rows(of: fanOut, after: previous, installations: installations, names: names, now: now)
    }

    /// Reads the pages that cannot be read in columns.
    /// - Parameter areTagsCommon: The page goes through the app's installations, although the tags are ``PendingFanOut/rareTags``.
    package func rows(
        of fanOut: PendingFanOut, after previous: PendingFanOut.Page?, installations: Int, areTagsCommon: Bool = false,
        names: DeliveryNames,
        now: Int64
    ) throws -> PendingFanOut.Page {
        guard fanOut.template.expiresAt > now else { return PendingFanOut.Page(end: fanOut.checkpoint, isLast: true, jobs: []) }
        guard var part = try part(of: fanOut, installations: installations, areTagsCommon: areTagsCommon) else {
            return PendingFanOut.Page(end: fanOut.checkpoint, isLast: true, jobs: [])
        }
        let moved = part.found.filter(\.hasMoved).map(\.tokenID)
        if !moved.isEmpty {
            var met = try inJobs(of: fanOut, among: Set(moved))
            for draft in previous?.jobs ?? [] { met.formUnion(draft.job.members) }
            part.found.removeAll { $0.hasMoved && met.contains($0.tokenID) }
        }
        var page = fanOut.page(part.found, end: part.end, isLast: part.isLast, names: names, now: now)
        page.read = part.read
        page.areTagsCommon = part.areTagsCommon
        return page
    }

    /// Which of these tokens are in a committed job already. Compared here: the database would search every job for each token, and a large
    /// audience's fan-out would never get past a page to which many have moved.
    private func inJobs(of fanOut: PendingFanOut, among tokens: Set<Int64>) throws -> Set<Int64> {
        var met: Set<Int64> = []
        for first in stride(from: 0, to: fanOut.checkpoint.jobs, by: Self.jobsRead) {
            let page = try session.execute(Self.members(of: fanOut, from: first, count: Self.jobsRead)).only()
            let members = Job.members(of: try page["members"])
            for member in members where tokens.contains(member) { met.insert(member) }
        }
        return met
    }

    /// The next part of the target, and the devices that fan-out finds there.
    private struct Part {
        var found: [PendingFanOut.Found]
        var end: PendingFanOut.Checkpoint
        var isLast = false
        var read: Int
        var areTagsCommon = false
    }

    /// - Returns: nil if no installation is left.
    private func part(of fanOut: PendingFanOut, installations: Int, areTagsCommon: Bool) throws -> Part? {
        if fanOut.updates?.isChannel == true { return try partOfChannel(fanOut, installations: installations) }
        var end = fanOut.checkpoint
        if let entries = fanOut.entries { return try partOfList(fanOut, entries: entries, installations: installations) }
        if let tags = fanOut.rareTags, !areTagsCommon {
            let tagged = try session.execute(Self.taggedInstallations(of: fanOut, tags: tags, count: installations))
            // If PostgreSQL's statistics were too old, this page and those after it go through the app's installations: both ways go in the
            // order of ordinals.
            if let last = tagged.last, try last["found"] <= Self.maximumRare {
                let ordinal: Int64? = try last["ordinal"]
                guard let ordinal else { return nil }
                end.position = ordinal
                return Part(found: try found(Self.page(of: fanOut, .tagged(tagged.column("id")))), end: end, read: tagged.count)
            }
        }
        guard let last = try session.execute(Self.pageEnd(of: fanOut, installations: installations)).first else { return nil }
        end.position = try last["ordinal"]
        let found =
            fanOut.isEverybody
            ? try everybody(fanOut, through: end.position)
            : try self.found(Self.page(of: fanOut, .ofApp(through: end.position)))
        return Part(found: found, end: end, read: try last["read"], areTagsCommon: fanOut.rareTags != nil)
    }

    private func found(_ page: PostgresQuery) throws -> [PendingFanOut.Found] {
        try session.execute(page).map { try PendingFanOut.Found($0, of: $0) }
    }

    /// Finds a part of the list: as many places as have about so many installations, or so many installations of one user.
    private func partOfList(_ fanOut: PendingFanOut, entries: Int64, installations: Int) throws -> Part {
        let start = fanOut.checkpoint.position
        var end = fanOut.checkpoint
        guard end.installation == nil else { return try partOfUser(fanOut, installations: installations) }
        end.position = min(entries, start + Int64(Self.entriesOfPage))
        var total = 0
        for row in try session.execute(Self.sizes(of: fanOut, installations: installations)) {
            let (place, size): (Int32, Int) = (try row["place"], try row["size"])
            total += size
            guard size > Self.installationsOfUser || total > installations else { continue }
            guard Int64(place) > start + 1 else { return try partOfUser(fanOut, installations: installations) }
            end.position = Int64(place) - 1
            break
        }
        return Part(
            found: try found(Self.page(of: fanOut, .ofList(through: end.position))), end: end, isLast: end.position == entries,
            read: Int(end.position - start))
    }

    /// Finds the next installations of the user at the place behind the checkpoint, or of the activity.
    private func partOfUser(_ fanOut: PendingFanOut, installations: Int) throws -> Part {
        let place = fanOut.checkpoint.position + 1
        var end = fanOut.checkpoint
        var ids = try nextInstallations(of: fanOut, count: installations)
        end.installation = ids.count > installations ? ids.removeLast() : nil
        if end.installation == nil { end.position = place }
        let page =
            fanOut.channel.map { Self.pageOfActivities(of: fanOut, $0, through: place, installations: ids) }
            ?? Self.page(of: fanOut, .ofList(through: place, installations: ids))
        return Part(found: try found(page), end: end, isLast: end.position == fanOut.entries, read: ids.count)
    }

    /// Each query finds the installations that are meant, among others: in order, from the same one on, and one more than a page has.
    /// - Returns: The ids of the first query that comes to the end, or of the one that leads furthest.
    private func nextInstallations(of fanOut: PendingFanOut, count: Int) throws -> [PushID] {
        var queries = [Self.nextInstallations(of: fanOut, count: count)]
        if fanOut.updates != nil { queries.insert(Self.nextReporters(of: fanOut, count: count), at: 0) }
        var furthest: [PushID] = []
        for query in queries {
            let ids: [PushID] = try session.execute(query).column("id")
            if ids.count <= count { return ids }
            if (ids.last ?? .zero) > (furthest.last ?? .zero) { furthest = ids }
        }
        return furthest
    }

    /// The broadcast first, then the activities that have update tokens: as many as have about so many installations, or so many
    /// installations of one activity's user.
    private func partOfChannel(_ fanOut: PendingFanOut, installations: Int) throws -> Part? {
        var end = fanOut.checkpoint
        guard end.jobs > 0 else {
            guard let channel = fanOut.channel, channel.isOpen else { return nil }
            return Part(found: [channel.found], end: end, isLast: !fanOut.includesActivities, read: 1)
        }
        guard let channel = fanOut.channel else { return nil }
        guard end.installation == nil else { return try partOfUser(fanOut, installations: installations) }
        let page = try session.execute(Self.endOfActivities(of: fanOut, channel)).only()
        let last: Int64? = try page["ordinal"]
        let (ordinals, sizes): ([Int64], [Int64]) = (try page["ordinals"], try page["sizes"])
        guard let last else { return nil }
        var (small, total) = (0, 0)
        for size in sizes {
            total += Int(size)
            guard size <= Self.installationsOfUser, total <= installations else { break }
            small += 1
        }
        guard small == 0, !ordinals.isEmpty else {
            end.position = small == ordinals.count ? last : ordinals[small] - 1
            guard small > 0 else { return Part(found: [], end: end, read: 0) }
            return Part(found: try found(Self.pageOfActivities(of: fanOut, channel, through: end.position)), end: end, read: small)
        }
        // Those of users with many installations, one after another, until the page has its number.
        var (part, done) = (Part(found: [], end: end, read: 0), 0)
        for (ordinal, size) in zip(ordinals, sizes) where part.read < installations && part.end.installation == nil {
            guard size > Self.installationsOfUser || done == 0 else { break }
            var alone = fanOut
            alone.checkpoint.position = ordinal - 1
            let next = try partOfUser(alone, installations: installations - part.read)
            part = Part(found: part.found + next.found, end: next.end, read: part.read + max(1, next.read))
            done += 1
        }
        if done == ordinals.count, part.end.installation == nil { part.end.position = last }
        return part
    }

    /// Installations beside their tokens, both in the order of fan-out.
    private func everybody(_ fanOut: PendingFanOut, through last: Int64) throws -> [PendingFanOut.Found] {
        let answers = try session.pipeline([
            Self.installationsOfEverybody(fanOut, through: last), Self.tokensOfEverybody(fanOut, through: last),
        ])
        let (owners, tokens) = (answers[0], answers[1])
        var found: [PendingFanOut.Found] = []
        found.reserveCapacity(tokens.count)
        var owner = 0
        var place: Int64? = try owners.first?["ordinal"]
        for token in tokens {
            let holder: Int64 = try token["ordinal"]
            while let passed = place, passed < holder {
                owner += 1
                place = try owner < owners.count ? owners[owner]["ordinal"] : nil
            }
            // Another ordinal belongs to an installation that is not meant.
            if holder == place { found.append(try PendingFanOut.Found(token, of: owners[owner])) }
        }
        return found
    }

    /// Makes a page's jobs and moves the checkpoint. Commits: no statement may follow in the transaction.
    /// - Throws: ``FanOutTakenOver``.
    /// - Parameter now: UNIX milliseconds; the relay publishes jobs that are due later.
    package func commit(_ page: PendingFanOut.Page, of fanOut: PendingFanOut, leaseSeconds: Double, now: Int64) throws {
        let target = try beginning(of: fanOut, page)
        guard let progress = try session.execute(Self.advance(page, of: fanOut, leaseSeconds: leaseSeconds)).first else {
            throw FanOutTakenOver()
        }
        var queries: [PostgresQuery] = []
        if !page.jobs.isEmpty {
            queries.append(Self.insertJobs(page.jobs.map(\.job), of: fanOut, leaseSeconds: leaseSeconds, now: now))
        }
        if var target {
            // The outcomes of all pages before an empty last one may be there already.
            if page.isLast, try progress["pending"] == 0 {
                // One that has expired is not ``UpdateQueue/sending`` any more, and another one may wait for it.
                let next = target.completed(fanOut.template.notification) ?? target.queue.free
                if let next, next != fanOut.template.notification { queries += UpdateTargetStore.release([next]) }
            }
            queries += UpdateTargetStore.save([target])
        }
        try session.commit(with: queries)
    }

    /// The Live Activity or the channel whose update is under way from this page on; if no device has it, the update waits no more.
    /// - Throws: ``FanOutTakenOver`` if it is not the notification's turn any more.
    private func beginning(of fanOut: PendingFanOut, _ page: PendingFanOut.Page) throws -> UpdateTarget? {
        guard let key = fanOut.updates, var target = try UpdateTargetStore(session: session).lockForTurns([key])[key] else { return nil }
        let (notification, window) = (fanOut.template.notification, fanOut.activityWindow)
        let now = UnixTime.milliseconds()
        if page.isLast, page.end.jobs == 0, target.queue.sending != notification {
            target.queue.drop(notification)
        } else {
            let isItsTurn = target.turn(of: notification, window: window, now: now) == .send
            // The last page of one that has expired has no job, and takes no turn.
            guard page.jobs.isEmpty || isItsTurn else { throw FanOutTakenOver() }
            // Also if its first pages find no device: one that reports behind the checkpoint gets a copy (``ActivityReports``).
            if fanOut.checkpoint.jobs == 0, isItsTurn {
                target.begin(notification, priority: fanOut.template.priority, window: window, now: now)
            }
        }
        return target
    }
}

/// The statements of a checkpoint.
extension FanOutStore {
    static func select(_ notification: PushID) -> PostgresQuery {
        """
        SELECT n.app_id, n.purpose, n.target_user, n.target_installation, f.lifetime_ms, cardinality(a.environments) > 1 AS may_try,
            f.checkpoint, f.checkpoint_installation, n.jobs, f.entries, CASE WHEN NOT f.are_tags_common THEN f.tags END AS tags,
            f.target = 'all' AS is_everybody, f.target = 'channel_and_activities' AS includes_activities, a.activity_window_seconds,
            greatest(n.accepted_at, f.due_at) - interval '10 seconds' AS began_at
        FROM fan_outs f JOIN notifications n ON n.id = f.notification JOIN apps a ON a.id = n.app_id
        WHERE f.notification = \(notification) AND f.ended_at IS NULL AND n.state <> 'cancelled'
        """
    }

    /// The members of some of a notification's jobs, one after the other.
    static func members(of fanOut: PendingFanOut, from first: Int, count: Int) -> PostgresQuery {
        """
        SELECT coalesce(string_agg(members, ''), '') AS members FROM jobs
        WHERE notification = \(fanOut.template.notification) AND number >= \(first) AND number < \(first + count)
        """
    }

    /// Moves the checkpoint from where this fan-out has seen it. If another process has gone on, or the notification was stopped, it moves
    /// none, and the caller has to roll the transaction back. If it waits for an outcome, PostgreSQL decides by the row that it waited for,
    /// which holds the outcomes' counts too.
    /// - Returns: a row with how many deliveries are pending now, if it moved the checkpoint.
    static func advance(_ page: PendingFanOut.Page, of fanOut: PendingFanOut, leaseSeconds: Double) -> PostgresQuery {
        let (from, count, isLast) = (fanOut.checkpoint, page.count, page.isLast)
        return """
            WITH counted AS (
                UPDATE notifications SET jobs = \(page.end.jobs), total = total + \(count)::bigint, pending = pending + \(count)::bigint,
                    state = CASE WHEN NOT \(isLast) THEN 'expanding' WHEN pending + \(count)::bigint > 0 THEN 'sending'
                        WHEN total + \(count)::bigint > 0 THEN
                            CASE WHEN expires_at <= now() AND are_unsent(outcomes) THEN 'expired' ELSE 'completed' END
                        WHEN expires_at <= now() THEN 'expired' ELSE 'no_targets' END,
                    completed_at = CASE WHEN \(isLast) AND pending + \(count)::bigint = 0 THEN now() END
                WHERE id = \(fanOut.template.notification) AND state IN ('accepted', 'scheduled', 'expanding') AND jobs = \(from.jobs)
                RETURNING id, pending
            )
            UPDATE fan_outs f SET checkpoint = \(page.end.position), checkpoint_installation = \(page.end.installation),
                are_tags_common = f.are_tags_common OR \(page.areTagsCommon), ended_at = CASE WHEN \(isLast) THEN now() END,
                free_from = CASE WHEN NOT \(isLast) THEN now() + make_interval(secs => \(leaseSeconds)) END
            FROM counted c WHERE f.notification = c.id AND f.checkpoint = \(from.position)
                AND f.checkpoint_installation IS NOT DISTINCT FROM \(from.installation)
            RETURNING c.pending
            """
    }

    /// Inserts jobs by fan-out's own clock (`now`), which also decides which jobs it publishes itself. A job that is due after the expiry
    /// waits for the expiry alone.
    static func insertJobs(_ jobs: [Job], of fanOut: PendingFanOut, leaseSeconds: Double, now: Int64) -> PostgresQuery {
        let expiresAt = fanOut.template.expiresAt
        return """
            INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, sandbox, free_from)
            SELECT \(fanOut.template.notification), number, \(fanOut.app), \(fanOut.template.lane), locale, due, members,
                sandbox::bit(100),
                CASE WHEN due > \(milliseconds: now) THEN greatest(now(), least(due, \(milliseconds: expiresAt)))
                    ELSE now() + make_interval(secs => \(leaseSeconds)) END
            FROM unnest(\(jobs.map(\.number))::bigint[], \(jobs.map(\.locale))::text[], \(milliseconds: jobs.map(\.dueAt))::timestamptz[],
                    \(jobs.map { Job.bytes(of: $0.members) })::bytea[], \(jobs.map { Job.mask(of: $0.sandbox) })::text[])
                AS e (number, locale, due, members, sandbox)
            """
    }
}

extension PendingFanOut.Found {
    fileprivate init(_ token: PostgresRow, of owner: PostgresRow) throws {
        self.init(
            tokenID: try token["token_id"], token: try token["token"], environment: try token["environment"],
            installation: try token["installation"], ownerEpoch: try owner["owner_epoch"], isUnproven: try token["unproven"],
            locale: try owner["locale"], dueAt: try owner.milliseconds("due"), hasMoved: try token["has_moved"])
    }
}

/// Another process has the fan-out, or a caller stopped the notification.
package struct FanOutTakenOver: Error {}
