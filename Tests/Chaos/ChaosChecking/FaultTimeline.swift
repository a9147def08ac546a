import ChaosLedger

/// What was done to the system, and what that excuses.
struct FaultTimeline {
    struct Fault {
        let id: Int64
        let kind: FaultRecord.Kind
        let target: String
        let began: Int64
        /// When the thing was ready again, or what comes next to it; the end of the run where nothing is known.
        let recovered: Int64
        /// When whoever did it stopped.
        let ended: Int64
        /// Of a clock: how far ahead it was, in microseconds.
        let step: Int64
        let excuses: Set<Excuse>

        /// Nothing was broken.
        var isLoad: Bool { kind == .saturation || kind == .overload }

        var name: String { "fault \(id) (\(kind.rawValue) of \(target))" }
    }

    /// What may be twice, late or refused because of it.
    enum Excuse {
        /// One dispatcher died: what it had in flight.
        case kill
        /// A dispatcher stood still or lost a connection: what was in flight.
        case connection
        /// APNs does not tell what became of what it took.
        case apns
        /// Whoever tells the broker what is to be sent did not learn whether it was told.
        case publisher
        /// What was decided before comes after it.
        case lateness
        /// Fences travel late where an answer said that they would.
        case fences
    }

    /// In the order of their beginnings.
    let all: [Fault]
    /// Fault windows with their recoveries, merged: where requests may be refused.
    private let windows: [ClosedRange<Int64>]
    /// Where requests may be shed.
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
                ended: max(record.beganAt, record.endedAt ?? end), step: record.step ?? 0,
                excuses: Self.excuses(of: record))
        }.sorted { ($0.began, $0.id) < ($1.began, $1.id) }
        recovery = run.recovery
        windows = Self.merged(all.filter { !$0.isLoad }.map { $0.began...($0.recovered + run.recovery) })
        overloads = Self.merged(all.filter { $0.kind == .overload }.map { $0.began...($0.ended + run.recovery) })
    }

    /// - Returns: since when faults and recoveries have followed one another without a pause until this moment; the moment itself where there was none.
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

    /// Until when RabbitMQ itself refused every publisher, because a node was short of something; 0 for never.
    func endOfAlarm(before moment: Int64) -> Int64 {
        all.filter { ($0.kind == .alarm || $0.kind == .disk) && $0.target.hasPrefix("rabbitmq") && $0.began <= moment }
            .map { min($0.recovered, moment) }.max() ?? 0
    }

    /// Whether more was asked of the platform than it can do, or a moment ago.
    func isOverloaded(_ range: ClosedRange<Int64>) -> Bool { Self.overlaps(overloads, range) }

    private static func overlaps(_ windows: [ClosedRange<Int64>], _ range: ClosedRange<Int64>) -> Bool {
        var (low, high) = (0, windows.count)
        while low < high {
            let middle = (low + high) / 2
            if windows[middle].upperBound < range.lowerBound { low = middle + 1 } else { high = middle }
        }
        return low < windows.count && windows[low].lowerBound <= range.upperBound
    }

    /// From when on a fence must be in force everywhere, but for the grace that every fence has.
    /// - Parameter fence: What the answer said of it; nil where it could not say, as a 204: then it may have been pending while there was trouble.
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

    /// Whether somebody's clock was so far ahead at that moment, or so far behind where `amount` is negative, that something was done too early or too
    /// late by no more than that; or a moment ago, as what was done goes from one to the next.
    func isOff(by amount: Int64, at moment: Int64) -> Bool {
        all.contains { fault in
            guard fault.step.signum() == amount.signum(), fault.began <= moment, moment <= fault.ended + recovery else { return false }
            return abs(fault.step) >= abs(amount)
        }
    }

    /// The names of those that were going on at some moment of the range, for evidence.
    func names(in range: ClosedRange<Int64>) -> String {
        let found = all.filter { $0.began <= range.upperBound && range.lowerBound <= $0.recovered + recovery }
        guard !found.isEmpty else { return "no fault at that time" }
        return "at that time " + found.prefix(4).map(\.name).joined(separator: ", ") + (found.count > 4 ? ", …" : "")
    }
}

extension FaultTimeline {
    /// What a fault may cause (docs/promises.md, 2 and 3).
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
        // What was told and not confirmed is told again; connections live on.
        case .alarm, .queueLimit, .disk: return [.publisher, .fences]
        case .slowAnswers, .silence: return [.apns, .lateness]
        case .connectionsCut: return [.apns, .connection]
        case .backendKill, .failover: return [.publisher, .fences]
        case .queueDeleted, .permissions: return [.connection, .publisher, .fences]
        default: break
        }
        if record.target.hasPrefix("dispatcher") { return record.kind == .kill ? [.kill] : [.connection, .lateness] }
        if record.target.hasPrefix("token-service") { return [.publisher, .fences] }
        if record.target.hasPrefix("postgres") { return [.publisher, .fences] }
        // The other one confirms what is committed.
        if record.target.hasPrefix("standby") { return [] }
        if record.target.hasPrefix("rabbitmq") { return [.connection, .publisher, .fences] }
        return [.connection, .apns, .lateness]
    }

    private static func linkExcuses(_ record: FaultRecord) -> Set<Excuse> {
        let (from, to) = (record.target.prefix { $0 != ">" }, record.target.drop { $0 != ">" }.dropFirst())
        if from.hasPrefix("client") { return [] }
        if to.hasPrefix("standby") { return [] }
        // Between servers: what comes of it is what comes of a lost server.
        if from.hasPrefix("rabbitmq") { return [.connection, .publisher, .fences] }
        if from.hasPrefix("token-service") || from.hasPrefix("postgres") { return [.publisher, .fences] }
        return to.hasPrefix("rabbitmq") ? [.connection] : [.connection, .apns, .lateness]
    }
}
