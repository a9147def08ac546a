package import Postgres
import PushModel

/// `POST /v1/apps/{app}/notifications`: one durable transaction, then 202, then the publishing (DESIGN.md section 4).
package struct NotificationIntake: Sendable {
    private let pool: PostgresPool
    private let publisher: JobPublisher
    private let backlog: PublishBacklog

    package init(pool: PostgresPool, publisher: JobPublisher, backlog: PublishBacklog) {
        self.pool = pool
        self.publisher = publisher
        self.backlog = backlog
    }

    package struct Acceptance: Sendable {
        package var receipt: NotificationReceipt
        /// The same request was accepted before; nothing new was written.
        package var isReplay: Bool
    }

    /// - Throws: ``BacklogFull``, ``IdempotencyMismatch``, `PostgresError`. Without an error the notification is committed.
    package func accept(
        _ request: NotificationRequest, app: App, idempotency: IdempotencyKey?, traceparent: String, now: Int64
    ) async throws -> Acceptance {
        try backlog.admit()
        let notification = Notification(
            id: .timeOrdered(milliseconds: now), app: app.slug, topic: request.pushType.purpose.topic(bundleID: app.bundleID),
            request: request, acceptedAt: now, traceparent: traceparent)
        let item = NotificationStore.Item(
            notification: notification, app: app, idempotency: idempotency, leaseSeconds: publisher.leaseForNewcomers)
        switch try await commit(item) {
        case .replay(let receipt): return Acceptance(receipt: receipt, isReplay: true)
        case .mismatch: throw IdempotencyMismatch()
        case .accepted(let deliveries):
            if !deliveries.isEmpty {
                backlog.grew(by: 1)
                if item.leaseSeconds > 0 { publisher.publish(notification, deliveries) }
            }
            return Acceptance(receipt: notification.receipt(deliveries: deliveries.count), isReplay: false)
        }
    }

    /// The one place where accepting commits. Requests that wait here together could go in as one list.
    private func commit(_ item: NotificationStore.Item) async throws -> NotificationStore.Verdict {
        let verdicts = try await pool.transaction { session in try NotificationStore(session: session).insert([item]) }
        return verdicts[0]
    }
}

extension Notification {
    fileprivate func receipt(deliveries: Int) -> NotificationReceipt {
        NotificationReceipt(
            id: id, app: app, lane: request.lane, pushType: request.pushType, deliveries: deliveries, acceptedAt: acceptedAt,
            expiresAt: request.expiresAt)
    }
}
