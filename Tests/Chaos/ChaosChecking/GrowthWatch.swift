import ChaosLedger

/// Whether a process grows: compares its second quarter of life with its last one. The count of descriptors leaves out clients'
/// connections, which the clients decide, and takes the smallest value.
struct GrowthWatch {
    /// Younger processes have not reached their size yet.
    static let youngest: Int64 = 600_000_000
    /// Of resident memory, in a minute.
    static let bytesPerMinute: Int64 = 1 << 20

    private struct Life {
        var name: String
        var samples: [SampleRecord.Process] = []
    }

    private var lives: [Int64: Life] = [:]

    mutating func note(_ sample: SampleRecord.Process) {
        lives[sample.id, default: Life(name: sample.name)].samples.append(sample)
    }

    /// - Returns: one sentence for each process and each resource that grew; nil if no process lived long enough.
    func findings() -> [String]? {
        let old = lives.values.filter { life in
            guard let first = life.samples.first, let last = life.samples.last else { return false }
            return last.at - first.at >= Self.youngest && life.samples.count >= 40
        }
        guard !old.isEmpty else { return nil }
        return old.flatMap { findings(of: $0) }.sorted()
    }

    private func findings(of life: Life) -> [String] {
        let quarter = life.samples.count / 4
        let (early, late) = (life.samples[quarter..<2 * quarter], life.samples.suffix(quarter))
        guard let begin = early.first?.at, let end = late.first?.at, end > begin else { return [] }
        let minutes = max(1, (end - begin) / 60_000_000)
        func grown(_ value: (SampleRecord.Process) -> Int64) -> Int64 {
            Self.middle(late.map(value)) - Self.middle(early.map(value))
        }
        let memory = grown(\.memory) / minutes
        func own(_ sample: SampleRecord.Process) -> Int64 { Int64(sample.descriptors - sample.clients) }
        let descriptors = Self.fewest(late.map(own)) - Self.fewest(early.map(own))
        let threads = grown { Int64($0.threads) }
        let name = "\(life.name) (process \(life.samples[0].id))"
        return [
            memory > Self.bytesPerMinute ? "\(name) took \(memory >> 10) KiB more every minute" : nil,
            // Some connections more or less are not a leak; one more every minute is.
            descriptors > max(10, minutes) ? "\(name) had \(descriptors) descriptors more after \(minutes) minutes" : nil,
            // A connection to PostgreSQL has a thread, and a pool opens one more when it needs it, for example after a failover.
            threads > 3 ? "\(name) had \(threads) threads more after \(minutes) minutes" : nil,
        ].compactMap { $0 }
    }

    /// All but a tenth have more.
    private static func fewest(_ values: [Int64]) -> Int64 { values.sorted()[values.count / 10] }
    private static func middle(_ values: [Int64]) -> Int64 { values.sorted()[values.count / 2] }
}
