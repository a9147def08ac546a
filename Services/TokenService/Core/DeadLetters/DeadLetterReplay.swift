import Broker
package import Postgres
import PushModel

/// Resolves dead letters anew and publishes what may still be sent: first the registry's word in one transaction, then the jobs, confirmed;
/// only then may the letters go. The letter is the outbox: if this process dies in between, it is still there, and replaying it again
/// finds what was reopened and not sent.
package struct DeadLetterReplay: Sendable {
    /// What becomes of one delivery.
    package enum Verdict: String, CaseIterable, Sendable {
        /// Reopened and published.
        case sent
        /// The user that it was for is not signed in there any more.
        case fenced
        /// The installation has no live token for it.
        case tokenGone = "token_gone"
        case cancelled
        /// It has an outcome that is none of failure, or the device's present token has had the notification.
        case settled
        /// Its notification is past its expiry.
        case expired
        /// Its outcome has not been applied yet, or it is being sent.
        case undecided
        /// Its notification has been removed.
        case forgotten

        /// Whether nothing is left to be done about it.
        var isDone: Bool {
            switch self {
            case .sent, .fenced, .tokenGone, .cancelled, .settled: true
            case .expired, .undecided, .forgotten: false
            }
        }
    }

    package struct Result: Equatable, Sendable {
        /// In the order of the letter's deliveries; empty where it is no job.
        package var verdicts: [Verdict]
        /// The letter may go.
        package var isDone: Bool
    }

    /// Deliveries of one transaction, about: few enough locks to hold nobody up.
    private static let maximumBatch = 2000

    private let pool: PostgresPool
    private let jobs: JobPublisher

    package init(pool: PostgresPool, jobs: JobPublisher) {
        self.pool = pool
        self.jobs = jobs
    }

    /// - Returns: in the order of the letters.
    func replay(_ letters: [DeadLetter], extending: Int64?) async throws -> [Result] {
        var results: [Result] = []
        var batch: [DeadLetter] = []
        var count = 0
        for letter in letters {
            batch.append(letter)
            count += letter.job?.deliveries.count ?? 0
            guard count >= Self.maximumBatch else { continue }
            results += try await replayBatch(batch, extending: extending)
            (batch, count) = ([], 0)
        }
        return results + (try await replayBatch(batch, extending: extending))
    }

    private func replayBatch(_ letters: [DeadLetter], extending: Int64?) async throws -> [Result] {
        let wanted = asked(of: letters)
        guard !wanted.isEmpty else { return letters.map { _ in Result(verdicts: [], isDone: false) } }
        let resolved = try await pool.transaction { session in
            try DeadLetterStore(session: session).reopen(wanted, extending: extending)
        }
        let isPublished = await jobs.publishConfirmed(resolved.claimed)
        return letters.map { letter in
            let verdicts = (letter.job?.deliveries ?? []).map { delivery -> Verdict in
                let verdict = resolved.verdicts[delivery.id] ?? .forgotten
                // It stays as it is, and the letter stays: the next replay finds both.
                return !isPublished && (verdict == .sent || resolved.stopped.contains(delivery.id)) ? .undecided : verdict
            }
            return Result(verdicts: verdicts, isDone: !verdicts.isEmpty && verdicts.allSatisfy(\.isDone))
        }
    }

    /// Every delivery of the letters once, in ascending order of id.
    private func asked(of letters: [DeadLetter]) -> [DeadLetterStore.Asked] {
        var asked: [PushID: DeadLetterStore.Asked] = [:]
        var names: [PushID: DeliveryNames] = [:]
        for letter in letters {
            guard let job = letter.job else { continue }
            let namesOfJob = names[job.notification] ?? DeliveryNames(job.notification)
            names[job.notification] = namesOfJob
            for delivery in job.deliveries {
                let other = asked[delivery.id]
                let place = DeliveryNames.place(of: delivery.id)
                let isPlace =
                    place.position < PushJob.maximumDeliveries && namesOfJob.id(chunk: place.chunk, position: place.position) == delivery.id
                asked[delivery.id] = DeadLetterStore.Asked(
                    id: delivery.id, isOrphan: letter.isOrphan && other?.isOrphan ?? true, notification: job.notification,
                    installation: delivery.installation, ownerEpoch: min(delivery.ownerEpoch, other?.ownerEpoch ?? .max),
                    attempts: max(job.attempt, other?.attempts ?? 0),
                    earlier: max(delivery.earlierOutcome, other?.earlier ?? .none), expiresAt: max(job.expiresAt, other?.expiresAt ?? 0),
                    place: isPlace ? place : nil)
            }
        }
        return asked.values.sorted { $0.id < $1.id }
    }
}
