package import Logging
package import Postgres
import PushModel
import ServiceLifecycle

/// Reads one log for one sink, in batches, and remembers in the database how far: at least once, and the same ids again after a crash.
/// Every process has one; the one with the lease reads, and the others wait for it to run out.
///
/// Numbers of a log are given before their transaction commits, so a lower one may appear after a higher one. Therefore it is read no
/// further than to what was there when every transaction that could still have held a lower number has ended.
package final class EventFeed: Service {
    /// Which feed: a row of `event_feeds`.
    package struct Name: Hashable, Sendable {
        package let log: EventLog
        package let sink: EventSink.Kind

        package init(log: EventLog, sink: EventSink.Kind) {
            self.log = log
            self.sink = sink
        }

        var values: [PostgresValue] { [.text(log.rawValue), .text(sink.rawValue)] }
    }

    static let leaseSeconds = 30.0
    private static let batch = 500
    /// Rows that one round looks at, whoever they are of.
    private static let stride: Int64 = 50_000
    /// From one look to the next: with nothing to read, and while something waits to be read.
    private static let rest = Duration.milliseconds(500)
    private static let haste = Duration.milliseconds(50)
    /// Of whoever does not have the lease.
    private static let wait = Duration.seconds(5)

    package let name: Name
    private let pool: PostgresPool
    private let sink: EventSink
    private let gauge: EventGauge
    private let metrics: TokenServiceMetrics
    private let logger: Logger
    private let holder = PushID.random()

    package init(
        name: Name, pool: PostgresPool, sink: EventSink, gauge: EventGauge, metrics: TokenServiceMetrics, logger: Logger
    ) {
        self.name = name
        self.pool = pool
        self.sink = sink
        self.gauge = gauge
        self.metrics = metrics
        self.logger = logger
    }

    /// Of the process that has the lease.
    private struct Reading {
        var position: Int64
        var renewed = ContinuousClock.now
        /// Everything up to here is committed or never will be.
        var settled: Int64 = 0
        /// What becomes settled once the transactions of its view have ended.
        var pending: EventStore.Horizon?
        var last: Int64 = 0

        /// - Returns: whether something waits that cannot be read yet.
        mutating func see(_ horizon: EventStore.Horizon) {
            if let pending, horizon.ended >= pending.begun {
                settled = pending.last
                self.pending = nil
            }
            if pending == nil, horizon.last > settled { pending = horizon }
            last = max(horizon.last, position)
        }
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            var pause = Self.rest
            var reading: Reading?
            while await Pause.of(pause) {
                do {
                    pause = try await self.round(&reading)
                } catch is CancellationError {
                    break
                } catch is LeaseLost {
                    reading = nil
                    pause = Self.wait
                } catch {
                    if !Task.isCancelled { self.report(error) }
                    reading = nil
                    pause = Self.wait
                }
            }
            if reading != nil { await self.letGo() }
        }
    }

    private func round(_ reading: inout Reading?) async throws -> Duration {
        guard var now = try await held(reading) else {
            reading = nil
            gauge.set(name, waiting: nil)
            return Self.wait
        }
        let (horizon, interest) = try await pool.session { [name, sink] session in
            (try EventStore(session: session).horizon(of: name.log), try sink.interest(in: name.log, session))
        }
        now.see(horizon)
        if interest.isEmpty {
            // Nobody listens: whoever begins to is told what happens from then on, and of some seconds before.
            if now.settled > now.position, ContinuousClock.now - now.renewed > .seconds(5) || now.settled > now.position + Self.stride {
                try await advance(&now, to: now.settled)
            }
            gauge.set(name, waiting: 0)
            reading = now
            return Self.rest
        }
        let isBehind = try await read(&now, interest)
        gauge.set(name, waiting: now.last - now.position)
        reading = now
        return isBehind ? .zero : now.last > now.position ? Self.haste : Self.rest
    }

    /// - Returns: whether there is more to read at once.
    private func read(_ now: inout Reading, _ interest: EventSink.Interest) async throws -> Bool {
        let (position, end) = (now.position, min(now.settled, now.position + Self.stride))
        guard end > position else { return false }
        let read = try await pool.session { [name] session in
            try EventStore(session: session).read(name.log, after: position, upTo: end, apps: interest.apps, limit: Self.batch)
        }
        let target = read.events.count < Self.batch ? end : read.positions.last ?? end
        guard try await sink.publish(read.events) else { return false }
        var split = BatchSplit(read.events.count)
        while let part = split.next() {
            let reached = part.upperBound < read.events.count ? read.positions[part.upperBound - 1] : target
            let events = Array(read.events[part])
            do {
                try await advance(&now, to: reached) { [sink] session in try sink.store(events, for: interest, session) }
                sink.stored(events.count)
                metrics.toldEvents(events.count, of: name)
            } catch {
                guard Refusal(error) != .absence, !(error is LeaseLost) else { throw error }
                if split.split(part) { continue }
                // In order: behind one that the database takes later, nothing is told. One that it never takes is left out.
                guard Refusal(error) == .values else { throw error }
                report(error)
                try await advance(&now, to: reached)
            }
        }
        if read.events.isEmpty { try await advance(&now, to: target) }
        return target < now.settled
    }

    private func held(_ reading: Reading?) async throws -> Reading? {
        if let reading, ContinuousClock.now - reading.renewed < .seconds(Self.leaseSeconds / 3) { return reading }
        let position = try await pool.session { [name, holder] session in try EventStore(session: session).take(name, holder: holder) }
        guard let position else { return nil }
        guard var reading else { return Reading(position: position) }
        reading.renewed = .now
        return reading
    }

    private func advance(
        _ now: inout Reading, to position: Int64, _ store: @escaping @Sendable (PostgresSession) throws -> Void = { _ in }
    ) async throws {
        try await pool.transaction { [name, holder] session in
            try EventStore(session: session).advance(name, to: position, holder: holder)
            try store(session)
        }
        now.position = position
        now.renewed = .now
    }

    /// So that another process need not wait for the lease to run out. In a task of its own: at shutdown this one is cancelled.
    private func letGo() async {
        do {
            try await Task { [pool, name, holder] in
                try await pool.session { session in try EventStore(session: session).release(name, holder: holder) }
            }.value
        } catch { report(error) }
    }

    private func report(_ error: any Error) {
        logger.failed(
            "Events could not be told", error, [LogKey.eventLog: "\(name.log.rawValue)", LogKey.eventSink: "\(name.sink.rawValue)"])
    }
}
