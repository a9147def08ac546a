import ChaosLedger
import PushModel

/// Judges one run by its ledgers, and by nothing else.
///
/// Every moment comes from a clock of the same machine. The moment of an event between a request and its answer is unknown, so each rule
/// asks whether *some* order of events explains the ledgers. A promise is broken only if no order does. A fault excuses only the effects
/// that it can have caused.
package struct Checker {
    let run: RunRecord
    let faults: FaultTimeline
    var names: Names
    var sends = SendBook()
    var owners: OwnershipBook
    var stops: StopBook
    var pushLog = PushLog()
    var activities = ActivityBook()
    var devices: [Int32: [DeviceRecord]] = [:]
    var keyed: Set<UInt64> = []
    var explained: [DuplicateSet: Int] = [:]
    var connectionsPerSecond: [Int64: Int] = [:]
    var lastConnection = 0
    var activeTokens: [Int32: PushID] = [:]
    var growth = GrowthWatch()
    var tables = TableWatch()
    var overload = OverloadBook()
    var standstill = StandstillWatch()
    var delays: DelayWatch
    /// Notifications that wait for deliveries of which APNs accepted none.
    var waiting: [String] = []
    package var verdict = Verdict()
    package var series: Series

    /// - Throws: errors of reading, or ``LedgerError`` if the run did not come to its end.
    package static func judge(_ source: some LedgerSource) throws -> Checker {
        let run = try source.run()
        guard run.endedAt != nil else { throw LedgerError(file: "run.json", "the run did not come to its end, so nothing can be judged") }
        var records: [FaultRecord] = []
        try source.faults { records.append($0) }
        var checker = Checker(run, FaultTimeline(records, run: run))
        try source.devices { checker.note($0) }
        try source.clients { checker.note($0) }
        checker.owners.finish()
        try source.pushes { checker.judge($0) }
        checker.judgeDuplicates()
        try source.reported { checker.judge($0) }
        checker.judgeUnreported()
        try source.shown { checker.judge($0) }
        try source.samples { checker.judge($0) }
        try checker.judgeOverload()
        checker.conclude()
        return checker
    }

    private init(_ run: RunRecord, _ faults: FaultTimeline) {
        self.run = run
        self.faults = faults
        names = Names(run)
        owners = OwnershipBook(run)
        stops = StopBook()
        delays = DelayWatch(faults)
        series = Series(run: run, faults: faults)
        verdict.figures.faults = faults.all.count
        verdict.figures.kills = faults.all.count { $0.excuses.contains(.kill) }
        if !run.judgesRefusals { verdict.notJudged.insert(.refusals) }
        // Until a ledger shows one.
        verdict.notJudged.formUnion([.inClear, .overtaken, .lockScreens])
        if run.answerWithin == nil { verdict.notJudged.insert(.slowAnswers) }
        if run.resumeWithin == nil { verdict.notJudged.insert(.standstill) }
        if run.connectionsPerSecond == nil { verdict.notJudged.insert(.connections) }
        if !faults.all.contains(where: { $0.kind == .overload }) { verdict.notJudged.insert(.goodput) }
    }

    /// A moment for people: seconds since the run began.
    func at(_ moment: Int64) -> String {
        let milliseconds = (moment - run.beganAt) / 1000
        let rest = String(1000 + abs(milliseconds % 1000)).dropFirst()
        return "\(milliseconds < 0 ? "-" : "+")\(abs(milliseconds) / 1000).\(rest) s"
    }

    private mutating func note(_ record: DeviceRecord) {
        devices[names.token(record.token), default: []].append(record)
    }

    private mutating func note(_ record: ClientRecord) {
        count(record)
        switch record.kind {
        case .send:
            if let index = sends.note(record, names: &names, into: &verdict) { activities.note(sends[index], at: index) }
            standstill.noteRequest(sentAt: record.sentAt, acceptedAt: record.status == 202 ? record.answeredAt : nil)
        case .report, .dismiss: activities.note(record, names: &names)
        case .register, .logout, .deregister:
            activities.note(record, names: &names)
            if let call = RegistryCall(record, names: &names, run: run, faults: faults) { owners.note(call) }
        case .cancel, .hold, .lift: stops.note(record, names: names, run: run, faults: faults)
        case .read: break
        }
    }

    private mutating func count(_ record: ClientRecord) {
        verdict.figures.requests += 1
        let end = record.answeredAt ?? record.gaveUpAt
        let took = end.map { $0 - record.sentAt } ?? 0
        if record.status != nil {
            verdict.figures.answered += 1
            verdict.figures.longestAnswer = max(verdict.figures.longestAnswer, took)
        }
        if let limit = run.answerWithin, took > limit {
            verdict.find(.slowAnswers, "request \(record.id) (\(record.kind.rawValue)) of \(at(record.sentAt)) took \(took / 1000) ms")
        }
        if record.status == 500 {
            verdict.find(.internalErrors, "request \(record.id) (\(record.kind.rawValue)) of \(at(record.sentAt))")
        }
        series.noteAnswer(record)
        overload.note(record)
        let isShed = record.status == 503 || record.status == 429
        if isShed {
            verdict.figures.shed += 1
            if record.retryAfter == nil {
                verdict.find(
                    .unkindRefusals, "request \(record.id) (\(record.kind.rawValue)) of \(at(record.sentAt)): \(record.status ?? 0)")
            }
        }
        guard record.status.map({ $0 >= 500 }) ?? true else { return }
        verdict.figures.refused += 1
        let range = record.sentAt...max(record.sentAt, end ?? record.sentAt)
        guard run.judgesRefusals, !faults.isTroubled(range), !isShed || !faults.isOverloaded(range) else { return }
        verdict.find(
            .refusals,
            """
            request \(record.id) (\(record.kind.rawValue)) of \(at(record.sentAt)) was answered \
            \(record.status.map { "\($0)" } ?? "nothing")
            """
        )
    }
}
