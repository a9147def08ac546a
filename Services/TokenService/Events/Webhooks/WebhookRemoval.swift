import Postgres
import PushModel
import TokenServiceKit
import TokenServiceRegistry

/// Removes webhooks whose removal has begun (``WebhookStore/beginDeletion(_:by:)``). A webhook may have millions of messages.
struct WebhookRemoval: Sendable {
    let pool: PostgresPool

    func finish(_ id: PushID) async throws {
        var last: PushID? = .lowest
        while let from = last {
            last = try await pool.session { session in try WebhookQueue(session: session).deleteMessages(of: id, after: from) }
        }
        // Another process may have removed it meanwhile.
        try await pool.session { session in try WebhookQueue(session: session).delete(id) }
    }

    /// Goes on with those whose request was cut off.
    func finishOthers() async throws {
        let begun = try await pool.session { session in try WebhookQueue(session: session).unfinishedDeletions() }
        var firstError: (any Error)?
        for id in begun {
            do { try await finish(id) } catch {
                guard Refusal(error) != .outage, !Task.isCancelled else { throw error }
                firstError = firstError ?? error
            }
        }
        if let firstError { throw firstError }
    }
}
