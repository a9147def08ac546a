package import Logging
import Observability
package import Postgres
package import PushModel
import ServiceLifecycle
import Synchronization
import TokenServiceKit
import TokenServiceRegistry

/// Fan-out of one notification: reads a page, commits its jobs with the checkpoint, hands them to the broker, and repeats. If the process
/// dies, another one goes on from the checkpoint, and a relay publishes the jobs.
package struct FanOut: Sendable {
    /// Pages that are committed and not recorded as published: they bound memory for any audience, and the deliveries that a kill sends
    /// twice.
    private static let pagesUnderWay = 2

    private let pool: PostgresPool
    private let jobs: JobPublisher
    private let holds: HoldCache
    private let installationsOfPage: Int
    private let turns: FanOutTurns
    private let lease: Duration
    private let watch: FanOutWatch
    private let slowSearches = SlowSearches()
    private let logger: Logger

    package init(
        pool: PostgresPool, jobs: JobPublisher, holds: HoldCache, page: Int, lease: Duration, turns: FanOutTurns, watch: FanOutWatch,
        logger: Logger
    ) {
        self.pool = pool
        self.jobs = jobs
        self.holds = holds
        installationsOfPage = page
        self.lease = lease
        self.turns = turns
        self.watch = watch
        self.logger = logger
    }

    /// Goes on until the end, a hold, the broker's absence, its refusals or a cancelled task stops it. If it stops before the end, it
    /// releases the fan-out, and a process takes it up again. Jobs that are not published keep their leases. It makes one page in any case,
    /// to find out whether the broker takes jobs.
    package func run(_ notification: PushID) async {
        watch.began()
        defer { watch.ended() }
        var traceparent: String?
        do {
            guard let fanOut = try await pool.session({ session in try FanOutStore(session: session).fanOut(of: notification) })
            else { return }
            traceparent = fanOut.template.traceparent
            guard try await isItsTurn(fanOut) else { return }
            try await makePages(of: fanOut)
        } catch is FanOutTakenOver {
            logger.info("A fan-out was taken over or stopped", metadata: .traced(traceparent, [LogKey.notification: "\(notification)"]))
        } catch {
            logger.failed("A fan-out was interrupted", error, .traced(traceparent, [LogKey.notification: "\(notification)"]))
            if (error as? PostgresError)?.sqlState == .invalidParameterValue {
                // The server does not know one of the time zones. If this call fails, the next attempt to fan out comes here again.
                _ = try? await pool.session { session in try TimeZones.refresh(in: session) }
            }
            await release(notification, traceparent)
        }
    }

    /// An update may have to wait: for the one before it, for the update token, or for the end of the window.
    private func isItsTurn(_ fanOut: PendingFanOut) async throws -> Bool {
        guard let key = fanOut.updates, fanOut.template.expiresAt > UnixTime.milliseconds() else { return true }
        return try await pool.transaction { session in
            guard let target = try UpdateTargetStore(session: session).lockForTurns([key])[key] else { return true }
            let notification = fanOut.template.notification
            switch target.turn(of: notification, window: fanOut.activityWindow, now: UnixTime.milliseconds()) {
            case .send: return true
            case .wait(let moment): try session.execute(UpdateTargetStore.putBack(notification, until: moment))
            case .outdated: _ = try session.pipeline(CancellationOutbox.supersede([notification]))
            }
            return false
        }
    }

    private func makePages(of start: PendingFanOut) async throws {
        var fanOut = start
        let notification = fanOut.template.notification
        let names = DeliveryNames(notification)
        let isOver = try await withThrowingTaskGroup(of: Void.self) { group in
            var (underWay, hasPage) = (0, false)
            var reading = try await read(fanOut, names)
            while jobs.isReady, !hasPage || jobs.isOpen(fanOut.template.lane), !isHeld(fanOut),
                !hasPage || !turns.isOver(for: fanOut.template.appLane), !Task.isCancelled, !Task.isShuttingDownGracefully
            {
                let (current, from) = (reading, fanOut)
                // The database reads the next page while this one is put together, written and waits for its turn.
                async let following = next(after: current, of: from, names)
                // Before the commit: while this waits, no process would renew the leases of a committed page.
                if underWay == Self.pagesUnderWay { try await group.next() } else { underWay += 1 }
                let page = try await commit(current, of: from, names)
                fanOut.advance(past: page)
                hasPage = true
                watch.wrote(page)
                let due = publishable(page, of: from, at: current.at)
                group.addTask { await jobs.publishAndWait(due) }
                switch try await following {
                case .nothing:
                    jobs.fannedOut(fanOut.template)
                    return true
                case .reading(let next): reading = next
                case .afterThis:
                    if page.isLast {
                        jobs.fannedOut(fanOut.template)
                        return true
                    }
                    reading = try await read(fanOut, after: page, names)
                }
            }
            return false
        }
        // Its pages are recorded: another process begins with the next one.
        if !isOver { await release(notification, start.template.traceparent) }
    }

    /// The process that takes the fan-out over puts the rest aside. An expired notification comes to its end, held or not.
    private func isHeld(_ fanOut: PendingFanOut) -> Bool {
        let (template, now) = (fanOut.template, UnixTime.milliseconds())
        return template.expiresAt > now
            && holds.holds(
                app: fanOut.app, lane: template.lane, notification: template.notification, original: template.original, now: now)
    }

    /// A page's data, and the moment that decides which of it is due: UNIX milliseconds.
    private struct Reading: Sendable {
        enum Found: Sendable {
            case columns(FanOutStore.Columns)
            case page(PendingFanOut.Page)
            /// The page of a Live Activity is read when it is committed. A device that reports its token meanwhile waits for the activity's
            /// lock, and is in this page or a later one, or gets a copy of the update (``ActivityReports``).
            case underLock(UpdateTarget.Key)
        }
        let found: Found
        let at: Int64
    }

    /// - Parameter previous: The page before, if it may not be committed yet.
    private func read(
        _ fanOut: PendingFanOut, after previous: PendingFanOut.Page? = nil, areTagsCommon: Bool = false, _ names: DeliveryNames
    ) async throws -> Reading {
        let (size, now) = (installationsOfPage, UnixTime.milliseconds())
        if let key = fanOut.updates, !key.isChannel { return Reading(found: .underLock(key), at: now) }
        do {
            let reading: Reading = try await pool.transaction(isolation: .repeatableRead) { session in
                let store = FanOutStore(session: session)
                if let columns = try store.columns(of: fanOut, installations: size, now: now) {
                    return Reading(found: .columns(columns), at: now)
                }
                let page = try store.rows(
                    of: fanOut, after: previous, installations: size, areTagsCommon: areTagsCommon, names: names, now: now)
                return Reading(found: .page(page), at: now)
            }
            if fanOut.rareTags != nil { slowSearches.remove(fanOut.template.notification) }
            return reading
        } catch let error as PostgresError where error.sqlState == .queryCanceled && fanOut.rareTags != nil && !areTagsCommon {
            // Until a vacuum, the index on tags holds the rows that have lost the tag, of every app. No statistics count them. A single
            // timeout may have another cause, such as a checkpoint: the fan-out is released, and its next attempt goes by the index again.
            guard slowSearches.add(fanOut.template.notification) else { throw error }
            return try await read(fanOut, after: previous, areTagsCommon: true, names)
        }
    }

    private enum Next: Sendable {
        case nothing
        case reading(Reading)
        /// The page before has to be put together first: its devices must be known, or it says whether it is the last.
        case afterThis
    }

    /// Reads on where a page ends, as far as that is possible before the page is put together.
    private func next(after reading: Reading, of fanOut: PendingFanOut, _ names: DeliveryNames) async throws -> Next {
        var fanOut = fanOut
        switch reading.found {
        case .underLock: return .afterThis
        case .page(let page):
            guard !page.isLast else { return .nothing }
            fanOut.advance(past: page)
            return .reading(try await read(fanOut, after: page, names))
        case .columns(let columns):
            guard let end = columns.end else { return .nothing }
            fanOut.checkpoint.position = end
            let (ahead, size, now) = (fanOut, installationsOfPage, UnixTime.milliseconds())
            let columns = try await pool.transaction(isolation: .repeatableRead) { session in
                try FanOutStore(session: session).columns(of: ahead, installations: size, now: now)
            }
            return columns.map { .reading(Reading(found: .columns($0), at: now)) } ?? .afterThis
        }
    }

    private func commit(_ reading: Reading, of fanOut: PendingFanOut, _ names: DeliveryNames) async throws -> PendingFanOut.Page {
        let (seconds, size) = (lease / .seconds(1), installationsOfPage)
        return try await pool.transaction { session in
            let store = FanOutStore(session: session)
            let page: PendingFanOut.Page
            switch reading.found {
            case .columns(let columns): page = try fanOut.page(of: columns, names: names, now: reading.at)
            case .page(let read): page = read
            case .underLock(let key):
                _ = try UpdateTargetStore(session: session).lock([key])
                page = try store.rows(of: fanOut, after: nil, installations: size, names: names, now: reading.at)
            }
            try store.commit(page, of: fanOut, leaseSeconds: seconds, now: reading.at)
            return page
        }
    }

    private func publishable(_ page: PendingFanOut.Page, of fanOut: PendingFanOut, at moment: Int64) -> [PublishableJob] {
        page.jobs.filter { $0.job.dueAt <= moment }.map { draft in
            PublishableJob(
                id: JobID(notification: fanOut.template.notification, number: draft.job.number),
                template: fanOut.template(of: draft.job), deliveries: draft.deliveries,
                isOfFanOut: true)
        }
    }

    /// Any process may go on with it.
    private func release(_ notification: PushID, _ traceparent: String?) async {
        do {
            try await pool.session { session in try WaitingWorkStore(session: session).release([notification]) }
        } catch {
            logger.info(
                "A fan-out's lease runs on",
                metadata: .traced(
                    traceparent, [LogKey.notification: "\(notification)", LogKey.error: "\(String(describing: error))"]))
        }
    }
}

/// The fan-outs whose last search by the index on tags took too long in this process. If there are too many, it forgets the oldest: that
/// fan-out tries the index once more.
private final class SlowSearches: Sendable {
    private static let maximum = 100

    private let notifications = Mutex<[PushID]>([])

    /// - Returns: Whether the search before this one took too long, too.
    func add(_ notification: PushID) -> Bool {
        notifications.withLock { known in
            guard !known.contains(notification) else { return true }
            if known.count == Self.maximum { known.removeFirst() }
            known.append(notification)
            return false
        }
    }

    func remove(_ notification: PushID) {
        notifications.withLock { known in known.removeAll { $0 == notification } }
    }
}
