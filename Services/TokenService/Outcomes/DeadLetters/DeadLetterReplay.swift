import Broker
package import Logging
package import Postgres
import PushModel
import TokenServiceApps
import TokenServiceKit
package import TokenServiceSending

/// Resolves dead letters anew and publishes the deliveries that may still be sent. One transaction decides and writes, then the broker
/// confirms the jobs, and only then are the letters removed.
///
/// A letter is its replay's outbox: if this process dies in between, the letter is still there, and the next replay finds the deliveries
/// that were reopened and not sent.
package struct DeadLetterReplay: Sendable {
    /// The result of one delivery.
    package enum Disposition: String, CaseIterable, Sendable {
        /// Reopened and published.
        case sent
        /// Another user is signed in there now, or no user is.
        case fenced
        /// The installation has no live token for it.
        case tokenGone = "token_gone"
        case cancelled
        /// It has an outcome that is no failure, or the device's present token has had the notification.
        case hasOutcome = "has_outcome"
        /// The notification is past its expiry.
        case expired
        /// The delivery's outcome has not been applied yet, or it is being sent.
        case undecided
        /// The notification has been removed.
        case forgotten

        /// Whether there is nothing left to do about it.
        var isDone: Bool {
            switch self {
            case .sent, .fenced, .tokenGone, .cancelled, .hasOutcome: true
            case .expired, .undecided, .forgotten: false
            }
        }
    }

    package struct Result: Equatable, Sendable {
        /// The dispositions in the order of the letter's deliveries; empty where it is no job.
        package var dispositions: [Disposition]
        /// The letter may go.
        package var isDone: Bool
    }

    /// Deliveries of one transaction, about: few enough locks that no other transaction waits long.
    private static let maximumBatch = 2000

    private let pool: PostgresPool
    private let jobs: JobPublisher
    private let logger: Logger

    package init(pool: PostgresPool, jobs: JobPublisher, logger: Logger) {
        self.pool = pool
        self.jobs = jobs
        self.logger = logger
    }

    /// After an error the rest of the letters stays, and the result says what was done before it: those letters have to go.
    /// - Returns: The results in the order of the letters.
    /// - Throws: If nothing was done.
    func replay(_ letters: [DeadLetter], extending: Int64?, by actor: AuditActor) async throws -> [Result] {
        var results: [Result] = []
        do {
            var batch: [DeadLetter] = []
            var count = 0
            for letter in letters {
                batch.append(letter)
                count += letter.job?.deliveries.count ?? 0
                guard count >= Self.maximumBatch else { continue }
                results += try await replayBatch(batch, extending: extending, by: actor)
                (batch, count) = ([], 0)
            }
            results += try await replayBatch(batch, extending: extending, by: actor)
        } catch {
            guard !results.isEmpty else { throw error }
            logger.failed("A replay of dead letters ends early: the others stay", error)
            results += letters[results.count...].map { letter in
                Result(dispositions: (letter.job?.deliveries ?? []).map { _ in .undecided }, isDone: false)
            }
        }
        return results
    }

    private func replayBatch(_ letters: [DeadLetter], extending: Int64?, by actor: AuditActor) async throws -> [Result] {
        guard !letters.isEmpty else { return [] }
        let deliveries = DeadDelivery.all(of: letters)
        let resolved = try await pool.transaction { session in
            let resolved = try DeadLetterStore(session: session).reopen(deliveries, extending: extending)
            // Not where every letter stays, and each delivery as it is.
            if !resolved.claimed.isEmpty || letters.contains(where: { Self.result(of: $0, resolved).isDone }) {
                try letters.record(.deadLettersReplayed, by: actor, in: session)
            }
            return resolved
        }
        let unconfirmed = await jobs.publishConfirmed(resolved.claimed)
        return letters.map { letter in Self.result(of: letter, resolved, unconfirmed: unconfirmed) }
    }

    private static func result(of letter: DeadLetter, _ resolved: DeadLetterStore.Resolved, unconfirmed: Set<PushID> = []) -> Result {
        let dispositions = (letter.job?.deliveries ?? []).map { delivery -> Disposition in
            let disposition = resolved.dispositions[delivery.id] ?? .forgotten
            let isPublished = unconfirmed.isDisjoint(with: resolved.messages(of: delivery.id))
            // The delivery stays as it is, and so does the letter: the next replay finds both.
            return !isPublished && (disposition == .sent || resolved.stopped.contains(delivery.id)) ? .undecided : disposition
        }
        return Result(dispositions: dispositions, isDone: !dispositions.isEmpty && dispositions.allSatisfy(\.isDone))
    }
}

extension [DeadLetter] {
    /// Adds an entry to the audit trail. It names the app, and the letter, if there is only one.
    func record(_ action: AuditAction, by actor: AuditActor, in session: PostgresSession) throws {
        let apps = Set(map { $0.job?.app })
        try AuditStore(session: session).record(
            action, by: actor, app: apps.count == 1 ? apps.first ?? nil : nil, object: count == 1 ? first?.id?.description : nil,
            count: count)
    }
}
