package import PushModel
package import StrictJSON

/// `faults.ndjson`: the faults of a run. The run writes a record when a fault begins, and again with the same id when it ends and when the
/// target is well again. The last line counts.
package struct FaultRecord: LedgerRecord, Equatable {
    package enum Kind: String, Sendable, CaseIterable {
        // A process, named by `target`.
        /// SIGKILL.
        case kill
        /// SIGSTOP until SIGCONT.
        case freeze
        /// SIGTERM: a graceful stop, which excuses nothing but refusals.
        case stop
        /// Fewer descriptors than it wants.
        case descriptors
        /// Its clock is set.
        case clock
        /// No room on its disk.
        case disk
        /// Its machine reaches nothing, and nothing reaches it.
        case cut

        // The database.
        case backendKill = "backend_kill"
        case failover

        // The broker.
        case alarm
        case queueLimit = "queue_limit"
        case queueDeleted = "queue_deleted"
        case permissions
        /// The process that leads a queue, which is the target, takes nothing and answers nothing. Its node and all other queues go on.
        case queueStandsStill = "queue_stands_still"
        /// The process that keeps the control stream's replica on a node, which is the target. Its node and all other replicas go on.
        case replicaStandsStill = "replica_stands_still"

        // A link, named by `target` as `FROM>TO`, both as processes are named without their numbers: `dispatcher>apns`.
        case latency, bandwidth, slices
        case blackHole = "black_hole"
        case reset
        case halfOpen = "half_open"
        case tls
        /// Enough clients to keep the platform busy, each with one request at a time. Measures the capacity.
        case saturation
        /// More requests than it can answer, however long the answers take.
        case overload

        // Faults of APNs.
        case goAway = "goaway"
        case streamLimit = "stream_limit"
        /// 429 and 5xx.
        case refusals
        case slowAnswers = "slow_answers"
        /// No answer, reset streams, connections cut.
        case silence
        case connectionsCut = "connections_cut"
    }

    package var id: Int64
    package var kind: Kind
    /// A process (`dispatcher-1`, `token-service-2`, `postgres`, `standby`, `rabbitmq`, `simulator`), a link, or a queue (`push.dead`).
    package var target: String
    package var process: Int64?
    package var beganAt: Int64
    /// nil while it lasts.
    package var endedAt: Int64?
    /// Of a clock: how far ahead it was set, in microseconds; negative where it was set back.
    package var step: Int64?
    /// Of a queue: the lane whose jobs go through it. They wait for it; nothing else may.
    package var lane: Lane?
    /// When the target was ready again.
    package var recoveredAt: Int64?
    /// For people.
    package var detail: String?

    package init(id: Int64, kind: Kind, target: String, process: Int64? = nil, beganAt: Int64) {
        self.id = id
        self.kind = kind
        self.target = target
        self.process = process
        self.beganAt = beganAt
    }

    private enum Field: String, CaseIterable {
        case id, kind, target, process
        case beganAt = "began_at"
        case endedAt = "ended_at"
        case recoveredAt = "recovered_at"
        case step, lane, detail
    }
    private static let fields = RecordFields<Field>()

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field(Field.id, id)
            object.field(Field.kind, kind)
            object.field(Field.target, target)
            object.field(Field.process, process)
            object.field(Field.beganAt, beganAt)
            object.field(Field.endedAt, endedAt)
            object.field(Field.recoveredAt, recoveredAt)
            object.field(Field.step, step)
            object.field(Field.lane, lane)
            object.field(Field.detail, detail)
        }
    }

    package init(from scanner: inout JSONScanner) throws(JSONError) {
        var (id, kind, target, beganAt): (Int64?, Kind?, String?, Int64?) = (nil, nil, nil, nil)
        var (process, endedAt, recoveredAt, step, detail): (Int64?, Int64?, Int64?, Int64?, String?) = (nil, nil, nil, nil, nil)
        var lane: Lane?
        try Self.fields.read(&scanner) { (field, scanner) throws(JSONError) in
            switch field {
            case .id: id = try scanner.integer()
            case .kind: kind = try scanner.choice(field, of: Kind.self)
            case .target: target = try scanner.string()
            case .process: process = try scanner.integer()
            case .beganAt: beganAt = try scanner.integer()
            case .endedAt: endedAt = try scanner.integer()
            case .recoveredAt: recoveredAt = try scanner.integer()
            case .step: step = try scanner.integer()
            case .lane: lane = try scanner.choice(field)
            case .detail: detail = try scanner.string()
            }
        }
        self.init(
            id: try scanner.require(id, Field.id), kind: try scanner.require(kind, Field.kind),
            target: try scanner.require(target, Field.target), process: process, beganAt: try scanner.require(beganAt, Field.beganAt))
        (self.endedAt, self.recoveredAt, self.step, self.detail) = (endedAt, recoveredAt, step, detail)
        self.lane = lane
    }
}
