import Foundation

/// One line a few times a minute, for a person who waits; on a terminal it is rewritten every second.
struct Progress: Sendable {
    let tally: Tally
    let sampler: Sampler
    let injector: FaultInjector
    let planned: Int
    let wanted: Int

    func run() async throws {
        let isTerminal = isatty(1) == 1
        let begin = ContinuousClock.now
        var last = (counts: Tally.Counts(), pushes: 0)
        while true {
            let interval = isTerminal ? 1 : 5
            try await Task.sleep(for: .seconds(interval))
            let (counts, seen) = (tally.counts, sampler.seen)
            let seconds = Int(begin.duration(to: .now) / .seconds(1))
            var line = "    \(seconds / 60):\(seconds % 60 < 10 ? "0" : "")\(seconds % 60)  \(counts.meant) of \(wanted) sent"
            line +=
                "  \((counts.accepted - last.counts.accepted) / interval)/s accepted  \((seen.pushes - last.pushes) / interval)/s pushed"
            line += "  \(seen.backlog) queued  \(counts.refused) refused  \(counts.unanswered) unanswered  \(counts.open) open"
            line += "  fault \(injector.done) of \(planned) \(injector.doing)"
            last = (counts, seen.pushes)
            if isTerminal {
                FileHandle.standardOutput.write(Data("\r\u{1b}[2K\(line)".utf8))
            } else {
                say(line)
            }
        }
    }
}
