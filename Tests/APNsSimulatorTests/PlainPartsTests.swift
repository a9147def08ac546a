import TestIdentity
import Testing

@testable import APNsSimulator

@Suite("The parts that need no connection")
struct PlainPartsTests {
    @Test("Timers fire in the order of their moments, equal ones in the order they were set")
    func timers() {
        var heap = TimerHeap<Int>()
        let start = ContinuousClock.now
        let delays = (0..<500).map { ($0 * 7919) % 101 }
        for (index, delay) in delays.enumerated() { heap.schedule(index, at: start + .milliseconds(delay)) }
        #expect(heap.earliest == start)
        #expect(heap.popDue(at: start - .milliseconds(1)) == nil)
        var fired: [Int] = []
        while let next = heap.popDue(at: start + .milliseconds(50)) { fired.append(next) }
        #expect(fired == delays.indices.filter { delays[$0] <= 50 }.sorted { (delays[$0], $0) < (delays[$1], $1) })
        #expect(heap.earliest == start + .milliseconds(51))
        while heap.popDue(at: start + .seconds(1)) != nil {}
        #expect(heap.isEmpty)
    }

    @Test("Removed timers leave the others in their order")
    func timersTakenOut() {
        var heap = TimerHeap<Int>()
        let start = ContinuousClock.now
        for number in 0..<500 { heap.schedule(number, at: start + .milliseconds((number * 7919) % 101)) }
        heap.removeAll { $0 % 3 == 0 }
        var fired: [Int] = []
        while let next = heap.popDue(at: start + .seconds(1)) { fired.append(next) }
        let expected = (0..<500).filter { $0 % 3 != 0 }.sorted { (($0 * 7919) % 101, $0) < (($1 * 7919) % 101, $1) }
        #expect(fired == expected)
    }

    @Test("Timers of connections that are gone do not pile up, and those of the others stay")
    func deadTimers() {
        var timers = LoopTimers()
        let due = ContinuousClock.now
        for number in 1...10_000 as ClosedRange<UInt32> {
            timers.schedule(.handshakeDeadline(connection: number), at: due) { $0 <= 100 || $0 == number }
            #expect(timers.count <= 300)
        }
        timers.schedule(.idleSweep, at: due) { _ in false }
        var left: Set<UInt32> = []
        while let task = timers.popDue(at: due) { if let connection = task.connection { left.insert(connection) } }
        #expect(left.isSuperset(of: 1...100))
    }

    @Test("The events of a scenario end with it")
    func deadEvents() throws {
        let identity = try TestIdentity.shared.get()
        let configuration = APNsSimulatorConfiguration(certificateFile: identity.certificateFile, keyFile: identity.keyFile, keys: [])
        let runs = try (0..<2).map { _ in try ScenarioRun(.calm, configuration: configuration, now: 0) }
        var timers = LoopTimers()
        for run in runs { timers.schedule(.scenarioEvent(run, 0), at: .now) { _ in true } }
        timers.schedule(.idleSweep, at: .now) { _ in true }
        timers.dropEvents(of: runs[0])
        #expect(timers.count == 2)
    }

    private func record(_ connection: UInt32) -> JournalRecord {
        JournalRecord(
            PushFacts(), id: MessageID(high: 0, low: 0), .accept, nil,
            RequestOrigin(environment: .production, connection: connection, stream: 1), 0)
    }

    @Test("A full journal forgets the oldest, and numbers go on", arguments: [0, 1, 4, 5, 6, 12, 17])
    func journalRing(_ count: Int) {
        var journal = Journal(capacity: 5)
        for number in 0..<count { journal.append(record(UInt32(number + 1))) }
        let held = journal.records(after: 0, limit: .max)
        let expected = Array(max(0, count - 5)..<count).map { Int64($0 + 1) }
        #expect(held.map(\.sequence) == expected)
        #expect(held.map { Int64($0.record.connection) } == expected)
        #expect(
            journal.records(after: Int64(count) - 2, limit: 1).map(\.sequence) == (count == 0 ? [] : [max(expected[0], Int64(count) - 1)]))
        #expect(journal.records(after: .max, limit: 1).isEmpty)
        journal.clear()
        #expect(journal.records(after: 0, limit: .max).isEmpty)
        journal.append(record(99))
        #expect(journal.records(after: 0, limit: .max).map(\.sequence) == [Int64(count + 1)])
    }

    @Test("Tokens of any length keep their bytes, and one byte makes another token", arguments: [1, 7, 8, 9, 31, 32, 33, 64, 256])
    func tokens(_ length: Int) throws {
        let hex = String((0..<length * 2).map { Array("0123456789abcdef")[($0 * 7 + length) % 16] })
        let token = try #require(TokenKey(hex: hex.uppercased()))
        #expect(token.hex == hex)
        #expect(token == TokenKey(hex: hex))
        #expect(token.hashValue == TokenKey(hex: hex)?.hashValue)
        for position in 0..<length {
            var digits = Array(hex)
            digits[2 * position] = digits[2 * position] == "0" ? "1" : "0"
            #expect(TokenKey(hex: String(digits)) != token)
        }
        #expect(TokenKey(hex: hex + "00") != token)
        #expect("\(token)" == "…" + hex.suffix(6))
    }

    @Test(
        "Moments are written as RFC 3339",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (951_782_399_999, "2000-02-28T23:59:59.999Z"), (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"), (1_709_251_199_001, "2024-02-29T23:59:59.001Z"),
            (1_735_689_599_123, "2024-12-31T23:59:59.123Z"), (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"), (1_792_569_600_000, "2026-10-21T08:00:00.000Z"),
        ])
    func moments(_ milliseconds: Int64, _ text: String) {
        #expect(rfc3339(milliseconds) == text)
    }

    @Test("Every reason of APNs has its status")
    func reasons() {
        let statuses = Dictionary(grouping: RejectionReason.allCases, by: \.status).mapValues(\.count)
        #expect(statuses == [400: 14, 403: 8, 404: 1, 405: 1, 410: 2, 413: 1, 429: 2, 500: 1, 503: 2])
    }

    @Test(
        "The simulator reads a payload like a device",
        arguments: [
            (#"{"aps":{"alert":"text"}}"#, nil, "text", true),
            (#"{"aps":{"alert":{"title-loc-key":"T","loc-key":"B"}}}"#, "T", "B", true),
            (#"{"aps":{"sound":{"critical":1,"name":"siren"}}}"#, nil, nil, true),
            (#"{"aps":{"content-available":1}}"#, nil, nil, false), (#"{"aps":7}"#, nil, nil, false), ("{}", nil, nil, false),
        ])
    func content(_ payload: String, _ title: String?, _ body: String?, _ isVisible: Bool) throws {
        let content = try #require(DeviceContent(payload: Array(payload.utf8)))
        #expect(content.title == title)
        #expect(content.body == body)
        #expect(content.isVisible == isVisible)
    }
}
