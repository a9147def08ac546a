package import Broker
package import Postgres
package import PushModel
package import RabbitMQ
import Synchronization
package import TokenServiceApps
package import TokenServiceKit

/// Reads, replays and drops dead letters. They stay in the broker's queue, in their order, until they are dropped or their replay is
/// confirmed; if a process dies in between, they are still there.
package struct DeadLetterService: Sendable {
    /// Letters that one call looks at. Later letters come into view as these are removed.
    package static let maximumSeen = 20_000
    /// Letters that one call replays or drops, so that an answer does not take long. A caller that wants more calls again.
    package static let maximumPerCall = 500

    private let pool: PostgresPool
    private let reading: QueueReading
    private let replaying: DeadLetterReplay

    package init(pool: PostgresPool, broker: RabbitMQConfiguration, topology: Topology, replaying: DeadLetterReplay) {
        self.pool = pool
        reading = QueueReading(queue: topology.deadQueue, configuration: broker, limit: Self.maximumSeen)
        self.replaying = replaying
    }

    package struct List: Sendable {
        package var letters: [DeadLetter] = []
        package var counts: [Count: Int] = [:]
        package var deliveries: [Count: Int] = [:]
        /// Letters that match the filter.
        package var matched = 0
        /// Letters that the call read.
        package var seen = 0
        package var isComplete = false

        /// The properties by which letters are counted.
        package struct Count: Hashable, Comparable, Sendable {
            package let reason: String
            package let app: AppSlug?

            package static func < (left: Count, right: Count) -> Bool {
                (left.reason, left.app?.text ?? "") < (right.reason, right.app?.text ?? "")
            }
        }

        fileprivate mutating func add(_ letter: DeadLetter, limit: Int) {
            let count = Count(reason: letter.reason, app: letter.job?.app)
            counts[count, default: 0] += 1
            deliveries[count, default: 0] += letter.job?.deliveries.count ?? 0
            matched += 1
            if letters.count < limit { letters.append(letter) }
        }
    }

    /// The oldest `limit` letters that the filter matches, and the counts of all.
    package func list(_ filter: DeadLetterFilter, limit: Int) async throws -> List {
        let list = Mutex(List())
        return try await reading.read { message in
            let letter = DeadLetter(message)
            if filter.matches(letter) { list.withLock { $0.add(letter, limit: limit) } }
            return false
        } _: { sight in
            var result = list.withLock { $0 }
            result.seen = sight.seen
            result.isComplete = sight.isComplete
            return (result, [])
        }
    }

    package struct Dropped: Equatable, Sendable {
        package var letters = 0
        package var deliveries = 0
        /// Others that match the filter.
        package var remaining = 0
    }

    /// Removes letters for good.
    package func drop(_ filter: DeadLetterFilter, by actor: AuditActor) async throws -> Dropped {
        try await work(filter) { [pool] letters, remaining in
            // The broker has no transaction with the database: the entry is there before a letter is gone.
            if !letters.isEmpty {
                try await pool.session { session in try letters.record(.deadLettersDropped, by: actor, in: session) }
            }
            let dropped = Dropped(
                letters: letters.count, deliveries: letters.reduce(0) { $0 + ($1.job?.deliveries.count ?? 0) }, remaining: remaining)
            return (dropped, letters.map(\.deliveryTag))
        }
    }

    package struct Replayed: Equatable, Sendable {
        /// Letters that are gone from the queue.
        package var letters = 0
        /// Letters that stay: expired, undecided, unreadable or forgotten.
        package var kept = 0
        /// Counts deliveries by result.
        package var deliveries: [DeadLetterReplay.Disposition: Int] = [:]
        package var unreadable = 0
        /// Others that match the filter.
        package var remaining = 0
    }

    /// Resolves the letters anew and sends the deliveries that may still be sent: only to a device that still belongs to the same user.
    /// - Parameter extending: A notification that is past its expiry gets that many seconds more; nil leaves such letters alone.
    package func replay(_ filter: DeadLetterFilter, extending: Int64?, by actor: AuditActor) async throws -> Replayed {
        let replaying = replaying
        return try await work(filter) { letters, remaining in
            var replayed = Replayed(remaining: remaining)
            let resolved = try await replaying.replay(letters, extending: extending, by: actor)
            var taken: [DeliveryTag] = []
            for (letter, result) in zip(letters, resolved) {
                for disposition in result.dispositions { replayed.deliveries[disposition, default: 0] += 1 }
                if letter.job == nil { replayed.unreadable += 1 }
                if result.isDone { taken.append(letter.deliveryTag) }
            }
            replayed.letters = taken.count
            replayed.kept = letters.count - taken.count
            return (replayed, taken)
        }
    }

    private func work<Result: Sendable>(
        _ filter: DeadLetterFilter, _ body: @Sendable ([DeadLetter], _ remaining: Int) async throws -> (Result, [DeliveryTag])
    ) async throws -> Result {
        let matched = Mutex(0)
        return try await reading.read { message in
            guard filter.matches(DeadLetter(message)) else { return false }
            return matched.withLock { matched in
                matched += 1
                return matched <= Self.maximumPerCall
            }
        } _: { sight in
            try await body(sight.messages.map(DeadLetter.init), matched.withLock { $0 } - sight.messages.count)
        }
    }
}

extension QueueIsBeingRead: ProblemError {
    package var problem: APIError { APIError(.deadLettersBusy, "another call reads them now; nothing was changed") }
}
