import TestSupport

/// The times and kinds of the faults, the same for the same seed, size and choice.
struct FaultPlan: Sendable {
    struct Entry: Sendable {
        /// Seconds since the load began.
        let at: Double
        let kind: FaultKind
        /// Its place in the plan. A fault of one of several targets hits each in turn.
        let number: Int
        /// The random numbers of this entry: its target and its length.
        let random: SeededGenerator
    }

    let entries: [Entry]

    /// - Parameter only: these kinds in turn instead of the size's own mixture.
    init(_ size: RunSize, only: [FaultKind]?, random: SeededGenerator) {
        var draws = random
        var kinds: [FaultKind]
        if let only {
            let room = max(1, Int(Double(size.notifications) / size.rate / (size.spacing / .seconds(1))) - 2)
            kinds = only.isEmpty ? [] : (0..<room).map { only[$0 % only.count] }
            // A failover leaves one standby, and no commit is possible without it.
            if let first = kinds.firstIndex(of: .postgresFailover) {
                let needsBoth: Set<FaultKind> = [.postgresFailover, .standbyCut, .standbyKill]
                kinds = kinds.prefix(first + 1) + kinds.dropFirst(first + 1).filter { !needsBoth.contains($0) }
            }
        } else if let sequence = size.sequence {
            kinds = sequence
        } else {
            kinds = FaultKind.allCases.flatMap { Array(repeating: $0, count: size.faults[$0] ?? 0) }.shuffled(using: &draws)
            // A failover is for good, so faults that kill PostgreSQL must come before it.
            if let place = kinds.firstIndex(of: .postgresFailover) { kinds.append(kinds.remove(at: place)) }
        }
        // Spread over three quarters of the load, so that the platform also survives the last fault under load.
        let spacing = max(size.spacing / .seconds(1), Double(size.notifications) / size.rate * 0.8 / Double(max(1, kinds.count)))
        entries = kinds.enumerated().map { number, kind in
            Entry(
                at: 4 + Double(number) * spacing + Double.random(in: 0..<spacing * 0.3, using: &draws), kind: kind,
                number: number,
                random: random.branch(UInt64(number + 1)))
        }
    }
}
