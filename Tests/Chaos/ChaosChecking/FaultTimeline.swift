import ChaosLedger
import PushModel

/// The faults of a run, and the effects that they excuse.
struct FaultTimeline {
    struct Fault {
        let id: Int64
        let kind: FaultRecord.Kind
        let target: String
        let began: Int64
        /// When the target was ready again, or the nearest known moment; the end of the run if none is known.
        let recovered: Int64
        /// When the fault ended.
        let ended: Int64
        /// Of a clock: how far ahead it was, in microseconds.
        let step: Int64
        /// Of a queue: the lane whose jobs go through it.
        let lane: Lane?
        let excuses: Set<Excuse>

        /// Nothing was broken.
        var isLoad: Bool { kind == .saturation || kind == .overload }

        /// One process inside the broker stood still. Whatever does not need it must go on.
        var isPartial: Bool { kind == .queueStandsStill || kind == .replicaStandsStill }

        var name: String { "fault \(id) (\(kind.rawValue) of \(target))" }
    }

    /// The effects that a fault excuses: pushes that are twice or late, and refusals.
    enum Excuse {
        /// One dispatcher died, which excuses its deliveries in flight.
        case kill
        /// A dispatcher stood still or lost a connection, which excuses deliveries in flight.
        case connection
        /// APNs does not answer requests that it took.
        case apns
        /// The token service did not get the confirm of a job that it published.
        case publisher
        /// The confirm of a retry came late, so its job may be published twice. Excuses only deliveries that had to wait for a retry.
        case retries
        /// Pushes that were decided before come after it.
        case lateness
        /// Fences come late if the answer announced it.
        case fences
    }

    /// In the order of their beginnings.
    let all: [Fault]
    /// Fault windows with their recoveries, merged. Requests may be refused in them.
    private let windows: [ClosedRange<Int64>]
    /// The windows in which requests may be shed.
    private let overloads: [ClosedRange<Int64>]
    private let recovery: Int64

    init(_ records: [FaultRecord], run: RunRecord) {
        var last: [Int64: FaultRecord] = [:]
        for record in records { last[record.id] = record }
        let end = run.endedAt ?? Int64.max / 2
        all = last.values.map { record in
            Fault(
                id: record.id, kind: record.kind, target: record.target, began: record.beganAt,
                recovered: max(record.beganAt, record.recoveredAt ?? record.endedAt ?? end),
                ended: max(record.beganAt, record.endedAt ?? end), step: record.step ?? 0, lane: record.lane,
                excuses: Self.excuses(of: record))
        }.sorted { ($0.began, $0.id) < ($1.began, $1.id) }
        recovery = run.recovery
        windows = Self.merged(all.filter { !$0.isLoad }.map { $0.began...($0.recovered + run.recovery) })
        overloads = Self.merged(all.filter { $0.kind == .overload }.map { $0.began...($0.ended + run.recovery) })
    }

    /// - Returns: the start of the faults and recoveries that follow one another without a pause until this moment; the moment itself if
    ///   there is none.
    func troubled(until moment: Int64) -> Int64 { windows.first { $0.contains(moment) }?.lowerBound ?? moment }

    static func merged(_ ranges: [ClosedRange<Int64>]) -> [ClosedRange<Int64>] {
        var merged: [ClosedRange<Int64>] = []
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = merged.last, range.lowerBound <= last.upperBound {
                merged[merged.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
            } else {
                merged.append(range)
            }
        }
        return merged
    }

    /// Whether some fault was going on, or not long over, at some moment of the range.
    func isTroubled(_ range: ClosedRange<Int64>) -> Bool { Self.overlaps(windows, range) }

    /// The end of the last time when RabbitMQ refused every publisher because a node lacked a resource; 0 for never.
    func endOfAlarm(before moment: Int64) -> Int64 {
        all.filter { ($0.kind == .alarm || $0.kind == .disk) && $0.target.hasPrefix("rabbitmq") && $0.began <= moment }
            .map { min($0.recovered, moment) }.max() ?? 0
    }

    /// Whether the platform was overloaded, or a moment ago.
    func isOverloaded(_ range: ClosedRange<Int64>) -> Bool { Self.overlaps(overloads, range) }

    private static func overlaps(_ windows: [ClosedRange<Int64>], _ range: ClosedRange<Int64>) -> Bool {
        var (low, high) = (0, windows.count)
        while low < high {
            let middle = (low + high) / 2
            if windows[middle].upperBound < range.lowerBound { low = middle + 1 } else { high = middle }
        }
        return low < windows.count && windows[low].lowerBound <= range.upperBound
    }

    /// The moment from which a fence must be in force everywhere, without the grace of every fence.
    /// - Parameter fence: The fence in the answer; nil if the answer has none, like a 204. Then it may have been pending during a fault.
    func effect(of fence: ClientRecord.Fence?, at moment: Int64) -> Int64 {
        let isPending =
            switch fence {
            case .effective, .some(.none): false
            case .pending: true
            case nil: all.contains { $0.excuses.contains(.fences) && $0.began <= moment && moment <= $0.recovered + recovery }
            }
        guard isPending else { return moment }
        var end = moment
        for fault in all where fault.excuses.contains(.fences) && fault.began <= end && end <= fault.recovered + recovery {
            end = fault.recovered + recovery
        }
        return max(end, moment + recovery)
    }

    /// Whether a process's clock was ahead by at least `amount` at that moment or just before it, or behind if `amount` is negative. The
    /// time before counts because effects pass from one process to the next.
    func isOff(by amount: Int64, at moment: Int64) -> Bool {
        all.contains { fault in
            guard fault.step.signum() == amount.signum(), fault.began <= moment, moment <= fault.ended + recovery else { return false }
            return abs(fault.step) >= abs(amount)
        }
    }

    /// The names of the faults in the range, for evidence.
    func names(in range: ClosedRange<Int64>) -> String {
        let found = all.filter { $0.began <= range.upperBound && range.lowerBound <= $0.recovered + recovery }
        guard !found.isEmpty else { return "no fault at that time" }
        return "at that time " + found.prefix(4).map(\.name).joined(separator: ", ") + (found.count > 4 ? ", …" : "")
    }
}

extension FaultTimeline {
    /// The effects that a fault may have (docs/promises.md, 2 and 3).
    private static func excuses(of record: FaultRecord) -> Set<Excuse> {
        if record.target.contains(">") { return linkExcuses(record) }
        let excuses = serverExcuses(record)
        return record.kind == .stop && !isServer(record.target) ? [] : excuses
    }

    private static func isServer(_ target: String) -> Bool {
        target.hasPrefix("postgres") || target.hasPrefix("rabbitmq") || target.hasPrefix("simulator")
    }

    private static func serverExcuses(_ record: FaultRecord) -> Set<Excuse> {
        switch record.kind {
        case .goAway, .streamLimit, .refusals, .clock: return []
        // Unconfirmed jobs are published again; connections live on.
        case .alarm, .queueLimit, .disk: return [.publisher, .fences]
        // Nothing but its own messages waits for it. Every publisher to it may publish them again: the token service to a lane, the
        // dispatchers and the broker's delayed queues to the others and to a lane.
        case .queueStandsStill: return record.lane == nil ? [.retries] : [.publisher, .retries]
        // The leader and the other follower confirm what is published, and readers can go to them.
        case .replicaStandsStill: return []
        case .slowAnswers, .silence: return [.apns, .lateness]
        case .connectionsCut: return [.apns, .connection]
        case .backendKill, .failover: return [.publisher, .fences]
        case .queueDeleted, .permissions: return [.connection, .publisher, .fences]
        default: break
        }
        if record.target.hasPrefix("dispatcher") { return record.kind == .kill ? [.kill] : [.connection, .lateness] }
        if record.target.hasPrefix("token-service") { return [.publisher, .fences] }
        if record.target.hasPrefix("postgres") { return [.publisher, .fences] }
        // The other standby confirms commits.
        if record.target.hasPrefix("standby") { return [] }
        if record.target.hasPrefix("rabbitmq") { return [.connection, .publisher, .fences] }
        return [.connection, .apns, .lateness]
    }

    private static func linkExcuses(_ record: FaultRecord) -> Set<Excuse> {
        let (from, to) = (record.target.prefix { $0 != ">" }, record.target.drop { $0 != ">" }.dropFirst())
        if from.hasPrefix("client") { return [] }
        if to.hasPrefix("standby") { return [] }
        // A link between servers has the effects of a lost server.
        if from.hasPrefix("rabbitmq") { return [.connection, .publisher, .fences] }
        if from.hasPrefix("token-service") || from.hasPrefix("postgres") { return [.publisher, .fences] }
        return to.hasPrefix("rabbitmq") ? [.connection] : [.connection, .apns, .lateness]
    }
}
