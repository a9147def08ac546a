package import Postgres
package import PushModel
package import TokenServiceApps
package import TokenServiceKit
package import TokenServiceRegistry

/// `DELETE /v1/apps/{app}/notifications/{id}`: the row first, then the control stream (`docs/promises.md`, 6).
package struct Cancellation: Sendable {
    private static let maximumLeftOver = 500
    /// Jobs of a notification that become due in one step: a campaign may have hundreds of thousands.
    private static let hastenedAtOnce = 200
    /// Notifications of a step.
    private static let hastenedTogether = 10

    private let pool: PostgresPool
    private let control: ControlPublisher
    private let relay: WorkSignal
    private let marks: OutboxMarks

    package init(pool: PostgresPool, control: ControlPublisher, relay: WorkSignal, marks: OutboxMarks) {
        self.marks = marks
        self.pool = pool
        self.control = control
        self.relay = relay
    }

    /// - Throws: ``APIError`` 404 where the app has no such notification, `PostgresError`; then nothing was stopped.
    package func cancel(_ id: PushID, app: App) async throws -> Cancelled {
        let stopped = try await pool.transaction { session in try CancellationStore(session: session, app: app).cancel(id) }
        // The relay gives unpublished jobs their outcome.
        relay.signal()
        guard let cancelledAt = stopped.cancelledAt else { return Cancelled(stopped: stopped, fence: .none) }
        var unpublished = stopped.isPublished ? [] : [CancellationOutbox.Unpublished(id: id, app: app.slug, cancelledAt: cancelledAt)]
        if let copy = stopped.copy { unpublished.append(copy) }
        guard !unpublished.isEmpty else { return Cancelled(stopped: stopped, fence: .effective) }
        let published = try await publish(unpublished)
        return Cancelled(stopped: stopped, fence: published ? .effective : .pending)
    }

    /// Publishes cancellations that a dead process, or a newer notification, left unpublished. Two processes may publish the same one: the
    /// second time has no further effect. There is no lease as for fences: it would say that another process tries, and not that the stream
    /// has the cancellation, and a fan-out that supersedes waits until the stream has all of them.
    /// - Returns: whether the control stream has all of them.
    package func publishLeftOver() async throws -> Bool {
        while true {
            let left = try await leftOver()
            if left.isEmpty { return true }
            guard try await publish(left) else { return false }
            if left.count < Self.maximumLeftOver { return true }
        }
    }

    private func leftOver() async throws -> [CancellationOutbox.Unpublished] {
        try await marks.unpublished.search { from in
            let (now, found) = try await pool.session { session in
                try CancellationOutbox(session: session).leftOver(limit: Self.maximumLeftOver, from: from.lowest)
            }
            let oldest: [AnyApp: Int64] = found.first.map { [.any: $0.cancelledAt] } ?? [:]
            return (now, oldest, found)
        }
    }

    /// Jobs that are due later or held get their outcome. A notification whose jobs cannot be read keeps no other one waiting.
    package func hastenJobs() async throws {
        let oldest = try await marks.unhastened.searchOldest { from in
            try await pool.session { session in try CancellationOutbox(session: session).oldestUnhastened(from: from) }
        }
        guard let oldest else { return }
        let found = try await pool.session { session in
            try CancellationOutbox(session: session).unhastened(limit: Self.hastenedTogether + 1, from: oldest)
        }
        var areLeft = found.count > Self.hastenedTogether
        let remains = await BatchSplit.write(Array(found.prefix(Self.hastenedTogether))) { part in
            let hasMore = try await pool.transaction { session in
                try CancellationOutbox(session: session).hasten(part, limit: Self.hastenedAtOnce)
            }
            areLeft = areLeft || hasMore
            return true
        }
        if areLeft { relay.signal() }
        if let outage = remains.outage { throw outage }
        let unread = remains.refused.map(\.item) + remains.waiting
        guard !unread.isEmpty, let fault = remains.failure else { return }
        try await pool.session { session in try CancellationOutbox(session: session).putOff(unread) }
        throw fault
    }

    private func publish(_ cancelled: [CancellationOutbox.Unpublished]) async throws -> Bool {
        let confirmed = await control.publish(
            cancelled.map { ControlMessage.cancel(app: $0.app, notification: $0.id, at: $0.cancelledAt) })
        let ids = zip(cancelled, confirmed).filter(\.1).map(\.0.id)
        try await pool.session { session in try CancellationOutbox(session: session).markPublished(ids) }
        return ids.count == cancelled.count
    }
}

/// The answer to a caller that stopped a notification.
package struct Cancelled: Equatable, Sendable {
    package var stopped: CancellationStore.Stopped
    package var fence: FenceState

    static let response = ResponseSchema<Cancelled>.object(
        "Cancellation",
        [
            .required("id", .uuid) { $0.stopped.id },
            .required("state", .word, "`completed`, `expired` or `no_targets` where it was too late.") { $0.stopped.state },
            .required(
                "stoppable", .count,
                """
                Deliveries without an outcome when it was stopped. What a dispatcher had just sent may still get another one than \
                `cancelled`.
                """
            ) { $0.stopped.cancelledAt == nil ? 0 : $0.stopped.pending },
            .optional("not_expanded", .boolean, "Its audience was not fanned out to the end: more would have followed.") {
                $0.stopped.isCutShort ? true : nil
            },
            .required("fence", .fence, "Whether the dispatchers' control stream has it, if one of them may need it.") { $0.fence },
        ])
}
