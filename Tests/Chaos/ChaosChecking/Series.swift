import ChaosLedger

/// The events of each second, for the plot.
package struct Series: Sendable {
    package struct Second: Sendable {
        var accepted = 0
        var pushed = 0
        var refused = 0
        /// Messages in all job and retry queues, as they were sampled last.
        var backlog = 0
    }

    struct Bar: Sendable {
        let from: Int64
        let to: Int64
        let name: String
    }

    let begin: Int64
    private(set) var seconds: [Second] = []
    let bars: [Bar]
    private var depths: [String: Int] = [:]

    init(run: RunRecord, faults: FaultTimeline) {
        begin = run.beganAt
        bars = faults.all.map {
            Bar(from: $0.began - run.beganAt, to: $0.recovered - run.beganAt, name: "\($0.kind.rawValue) \($0.target)")
        }
    }

    /// Messages in the queues of jobs and retries at the end; nil if they were not sampled.
    var queued: Int? { depths.isEmpty ? nil : depths.values.reduce(0, +) }

    private mutating func change(_ moment: Int64, _ body: (inout Second) -> Void) {
        // One day of seconds. A later moment comes from a clock that was set.
        guard case let second = Int((moment - begin) / 1_000_000), (0..<86_400).contains(second) else { return }
        while seconds.count <= second { seconds.append(Second()) }
        body(&seconds[second])
    }

    mutating func noteAnswer(_ record: ClientRecord) {
        guard let end = record.answeredAt ?? record.gaveUpAt else { return }
        if record.kind == .send, record.status == 202 { change(end) { $0.accepted += 1 } }
        if record.status ?? 500 >= 500 { change(end) { $0.refused += 1 } }
    }

    mutating func notePush(_ push: Push) {
        if push.fate == .accepted { change(push.time) { $0.pushed += 1 } }
    }

    mutating func note(_ sample: SampleRecord) {
        if case .flood(let flood) = sample { return change(flood.at) { $0.refused += flood.shed } }
        guard case .queue(let queue) = sample, queue.name.contains(".jobs") || queue.name.contains(".retry") else { return }
        depths[queue.name] = queue.depth
        let sum = depths.values.reduce(0, +)
        change(queue.at) { $0.backlog = sum }
    }
}
