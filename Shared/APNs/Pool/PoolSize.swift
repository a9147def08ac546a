/// How many connections a pool wants: between a minimum and a maximum, by the use of their streams, one more or one less at a time. A pure
/// value.
struct PoolSize {
    /// The connections that take requests, together, at one moment.
    struct Load {
        var connections: Int
        var openStreams: Int
        var streamLimit: Int
        /// Requests wait for a free stream.
        var requestsWait: Bool

        /// Four fifths of the streams are in use: the rest is reserved, or about to be.
        var isSaturated: Bool { requestsWait && openStreams * 5 >= streamLimit * 4 }

        /// Half of the others' streams would suffice.
        var fitsInOneLess: Bool {
            guard connections > 1, !requestsWait else { return false }
            return openStreams * 2 <= streamLimit - streamLimit / connections
        }
    }

    enum Change: Equatable { case grow, shrink }

    private let rules: APNsPoolConfiguration
    private let minimum: Int
    private(set) var wanted: Int
    private var saturatedSince: ContinuousClock.Instant?
    private var quietSince: ContinuousClock.Instant?

    init(_ rules: APNsPoolConfiguration) {
        self.rules = rules
        minimum = max(1, rules.connections)
        wanted = minimum
    }

    /// Whether it may shrink, so that the load is checked without an event.
    var isAboveMinimum: Bool { wanted > minimum }

    /// - Parameter isSettled: there are as many connections as wanted, and APNs has accepted the credential on each: the effect of the last
    ///   change is visible.
    mutating func observe(_ load: Load, isSettled: Bool, now: ContinuousClock.Instant) -> Change? {
        guard isSettled else {
            (saturatedSince, quietSince) = (nil, nil)
            return nil
        }
        saturatedSince = load.isSaturated ? saturatedSince ?? now : nil
        quietSince = load.fitsInOneLess ? quietSince ?? now : nil
        if wanted < rules.maximumConnections, let saturatedSince, now - saturatedSince >= rules.growAfter { return change(.grow) }
        if wanted > minimum, let quietSince, now - quietSince >= rules.shrinkAfter { return change(.shrink) }
        return nil
    }

    /// No connection is left to judge by.
    mutating func reset() {
        self = PoolSize(rules)
    }

    private mutating func change(_ change: Change) -> Change {
        wanted += change == .grow ? 1 : -1
        (saturatedSince, quietSince) = (nil, nil)
        return change
    }
}
