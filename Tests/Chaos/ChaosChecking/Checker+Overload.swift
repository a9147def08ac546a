import ChaosLedger

/// The requests and acceptances of each moment, for the judgement of overload.
struct OverloadBook {
    /// When each send request was answered 202.
    private var accepted: [Int64] = []
    /// Send requests with a record of their own.
    private var recorded: [Int64] = []
    private(set) var floods: [SampleRecord.Flood] = []

    mutating func note(_ record: ClientRecord) {
        guard record.kind == .send else { return }
        recorded.append(record.sentAt)
        if record.status == 202, let moment = record.answeredAt { accepted.append(moment) }
    }

    mutating func note(_ flood: SampleRecord.Flood) { floods.append(flood) }

    func accepted(in window: ClosedRange<Int64>) -> Int { accepted.count { window.contains($0) } }
    func recorded(in window: ClosedRange<Int64>) -> Int { recorded.count { window.contains($0) } }
    func floods(in window: ClosedRange<Int64>) -> [SampleRecord.Flood] { floods.filter { window.contains($0.at) } }
}

/// The bar of overload: the platform accepts at least four fifths of its capacity under any load, and sheds the rest.
extension Checker {
    /// A fraction of the capacity.
    private static var goodputShare: Double { 0.8 }
    /// A multiple of the capacity. With fewer due requests there is no overload.
    private static var leastDue: Double { 2.5 }
    /// The multiple of the capacity that must have found a connection. The platform does not see requests that wait at their client.
    private static var leastSent: Double { 2 }

    mutating func note(_ flood: SampleRecord.Flood) {
        overload.note(flood)
        verdict.figures.shed += flood.shed
        verdict.figures.requests += flood.shed
        verdict.figures.answered += flood.shed
        guard flood.shed > 0 else { return }
        verdict.figures.longestAnswer = max(verdict.figures.longestAnswer, flood.longest)
        if let limit = run.answerWithin, flood.longest > limit {
            verdict.find(.slowAnswers, "a request that was shed in the second before \(at(flood.at)) took \(flood.longest / 1000) ms")
        }
        if run.judgesRefusals, !faults.isOverloaded(flood.at - 1_000_000...flood.at) {
            verdict.find(.refusals, "\(flood.shed) requests were shed in the second before \(at(flood.at))")
        }
    }

    /// - Throws: if there was no overload, because then the run shows nothing.
    mutating func judgeOverload() throws(LedgerError) {
        for fault in faults.all where fault.kind == .overload {
            guard let before = faults.all.last(where: { $0.kind == .saturation && $0.ended <= fault.began }) else {
                throw LedgerError(file: "faults.ndjson", "\(fault.name): no fault before it measured the capacity of the platform")
            }
            let figures = overload(before.began...before.ended, fault.began...fault.ended)
            let isOverload =
                figures.due >= Self.leastDue * figures.capacity && figures.sent >= Self.leastSent * figures.capacity
            guard isOverload else {
                throw LedgerError(
                    file: "samples.ndjson",
                    """
                    \(fault.name): \(Int(figures.due)) requests a second were due, \(Int(figures.sent)) were sent and \
                    \(Int(figures.capacity)) can be accepted: no overload
                    """)
            }
            verdict.figures.overloads.append(figures)
            guard figures.goodput < Self.goodputShare * figures.capacity else { continue }
            verdict.find(
                .goodput, "\(fault.name): \(Int(figures.goodput)) accepted a second, and \(Int(figures.capacity)) when it was saturated")
        }
    }

    private func overload(_ saturation: ClosedRange<Int64>, _ window: ClosedRange<Int64>) -> Overload {
        func perSecond(_ count: Int, _ range: ClosedRange<Int64>) -> Double {
            Double(count) * 1_000_000 / Double(max(1, range.upperBound - range.lowerBound))
        }
        let floods = overload.floods(in: window)
        let shed = floods.reduce(0) { $0 + $1.shed }
        return Overload(
            capacity: perSecond(overload.accepted(in: saturation), saturation),
            sent: perSecond(overload.recorded(in: window) + shed, window), goodput: perSecond(overload.accepted(in: window), window),
            shed: perSecond(shed, window), unsent: perSecond(floods.reduce(0) { $0 + $1.unsent }, window))
    }
}
