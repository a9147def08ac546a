/// `run.json`: the run and its limits. Written when the run begins, and again when it has ended.
package struct RunRecord: LedgerRecord, Equatable {
    /// One app of the run.
    package struct App: Sendable, Equatable {
        package var slug: String
        /// The pushes' topic.
        package var bundleID: String
        /// Every token of the app begins with these hex digits, and no other app's does.
        package var tokenPrefix: String
        /// A user has one installation at a time.
        package var isSingle: Bool

        package init(slug: String, bundleID: String, tokenPrefix: String, isSingle: Bool) {
            self.slug = slug
            self.bundleID = bundleID
            self.tokenPrefix = tokenPrefix
            self.isSingle = isSingle
        }
    }

    /// The memory limit of every process of a kind. `process` is the beginning of the names of the processes: `dispatcher` for
    /// `dispatcher-2`.
    package struct Memory: Sendable, Equatable {
        package var process: String
        package var bytes: Int64

        package init(process: String, bytes: Int64) {
            self.process = process
            self.bytes = bytes
        }
    }

    package var seed: Int64
    /// `small`, `standard`, `full`, or a scenario's.
    package var size: String
    /// nil for the main line.
    package var scenario: String?
    package var commit: String
    package var command: String
    /// The deliberate fault of a negative control.
    package var deliberateFault: String?
    package var beganAt: Int64
    /// When the last notification was terminal, or the wait for that was given up. The run writes ledgers until ``endedAt``.
    package var drainedAt: Int64?
    /// nil: the run was cut off and cannot be judged.
    package var endedAt: Int64?

    /// Deliveries that one dispatcher has between sending and settling, at most.
    package var inFlightBound: Int
    /// How long after an answer a fence, a cancellation or a hold may take: one second (docs/promises.md, 3 and 6).
    package var grace: Int64 = 1_000_000
    /// How long after a recovery a fault still explains duplicates and refusals.
    package var recovery: Int64 = 5_000_000
    /// How long a delivery may be between its push and its job's acknowledgement without a fault.
    package var settling: Int64 = 10_000_000
    /// How long a request without an answer may still be carried out after its client gave up.
    package var lateness: Int64 = 30_000_000
    /// New connections to APNs in any one second, at most; nil: not judged.
    package var connectionsPerSecond: Int?
    /// No request may take longer; nil: not judged.
    package var answerWithin: Int64?
    /// How long the platform may send nothing although a notification waits; nil: not judged.
    package var resumeWithin: Int64?
    /// Answers 5xx and missing answers are judged too. They are allowed only if a fault explains them.
    package var judgesRefusals = false
    /// Tables of work in progress, which are empty when the last notification is terminal.
    package var emptyAtRest: [String] = []
    package var memory: [Memory]
    package var apps: [App]

    package init(
        seed: Int64, size: String, scenario: String? = nil, commit: String, command: String, beganAt: Int64, inFlightBound: Int,
        memory: [Memory], apps: [App]
    ) {
        self.seed = seed
        self.size = size
        self.scenario = scenario
        self.commit = commit
        self.command = command
        self.beganAt = beganAt
        self.inFlightBound = inFlightBound
        self.memory = memory
        self.apps = apps
    }
}
