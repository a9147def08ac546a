import Foundation
import HTTP2
import SystemIO
import TestIdentity
import Testing

@testable import APNsSimulator

@Suite("The journal shows which requests were answered, and when", .timeLimit(.minutes(5)))
struct LostAnswerTests {
    private func with(_ path: String? = nil, _ body: (TestSimulator) async throws -> Void) async throws {
        try await withSimulator {
            $0.streamGate = false
            $0.streamPenalty = false
            $0.journalFile = path
        } _: { test in
            try await body(test)
        }
    }

    private func lines(_ path: String) throws -> [JournalFileReader.Line] {
        var reader = try JournalFileReader(path: path)
        var lines: [JournalFileReader.Line] = []
        while let line = try reader.nextLine() { lines.append(line) }
        return lines
    }

    /// Returns when so many connections have ended.
    private func waitForEnds(_ count: Int64, _ test: TestSimulator) throws {
        let observer = try test.client(.sandbox)
        var trips: UInt64 = 0
        while test.simulator.counters.connectionsClosed < count {
            trips += 1
            try observer.roundTrip(trips)
        }
    }

    @Test("A late answer is lost and counted as lost if its connection ends before", arguments: ["client", "command", "scenario"])
    func connection(_ end: String) async throws {
        let path = try TestIdentity.shared.get().directory + "/\(UUID().uuidString).journal"
        try await with(path) { test in
            try test.simulator.install("aa")
            try test.simulator.script("aa", [.accept.delayed(by: .seconds(600)), .reject(.tooManyRequests).delayed(by: .seconds(600))])
            try test.simulator.script("bb", [.close])
            let client = try test.client()
            for _ in 0..<2 { _ = try client.submit(test.push().to("aa")) }
            try client.roundTrip(1)
            #expect(test.simulator.counters.accepted == 0)
            #expect(test.simulator.journal().map(\.answeredAt) == [nil, nil])
            switch end {
            case "client":
                try client.socket.resetOnClose()
                client.close()
            case "command": test.simulator.closeConnections()
            default:
                _ = try client.submit(test.push().to("bb"))
                try client.poll()
            }
            try waitForEnds(1, test)
            let counters = test.simulator.counters
            #expect(counters.lost == 2)
            #expect(counters.accepted == 0)
            #expect(counters.rejections.isEmpty)
            let late = test.simulator.journal().prefix(2)
            #expect(late.map(\.loss) == [.connectionClosed, .connectionClosed])
            #expect(late.map(\.answeredAt) == [nil, nil])
            #expect(late.map(\.isShown) == [true, false])
            let notes = try lines(path).compactMap { line -> JournalNote? in
                if case .note(let note) = line { note } else { nil }
            }
            #expect(notes.map(\.sequence) == [1, 2])
            #expect(notes.map(\.loss) == [.connectionClosed, .connectionClosed])
        }
    }

    @Test("A late answer to a stream that its client has reset is lost")
    func stream() async throws {
        try await with { test in
            try test.simulator.script("aa", [.accept.delayed(by: .seconds(2))])
            let client = try test.client()
            let stream = try client.submit(test.push().to("aa"))
            try client.roundTrip(1)
            client.http2.reset(stream)
            var trips: UInt64 = 1
            while test.simulator.counters.lost == 0 {
                trips += 1
                try client.roundTrip(trips)
            }
            #expect(test.simulator.journal().map(\.loss) == [.streamClosed])
            #expect(test.simulator.counters.accepted == 0)
        }
    }

    @Test("A late answer is lost if its connection was frozen meanwhile")
    func frozen() async throws {
        try await with { test in
            try test.simulator.play(
                Scenario(text: #"{"v":1,"name":"test","requests":[{"positions":[2],"do":[{"action":"freeze"}]}]}"#))
            try test.simulator.script("aa", [.accept.delayed(by: .seconds(2))])
            let (client, observer) = (try test.client(), try test.client(.sandbox))
            for _ in 0..<2 { _ = try client.submit(test.push().to("aa")) }
            try client.poll()
            var trips: UInt64 = 0
            while test.simulator.counters.lost == 0 {
                trips += 1
                try observer.roundTrip(trips)
            }
            #expect(test.simulator.journal().map(\.loss) == [.connectionFrozen, nil])
            #expect(test.simulator.counters.unanswered == [.silence: 1])
        }
    }

    @Test("Answers that never left because their client read nothing are lost; sent ones are not")
    func backlog() async throws {
        try await with { test in
            // More than the kernel's buffers hold.
            let large = String(repeating: "x", count: 400_000)
            try test.simulator.script("aa", [.answer(status: 400, reason: large)], then: .repeat)
            let client = try RawClient(port: test.simulator.productionPort)
            try client.send([RawFrame.setting(4, .max >> 1), RawFrame.windowUpdate(0, .max >> 1 - 65_535)])
            try client.send((0..<60).flatMap { BacklogTests.push(test, $0, "aa") })
            // The simulator reads all requests, or enough to fill the backlog.
            _ = await test.simulator.journal(reaching: 60, timeout: .seconds(1))
            try client.close(abruptly: true)
            try waitForEnds(1, test)
            let entries = test.simulator.journal()
            let lost = entries.count { $0.loss == .connectionClosed }
            #expect(lost > 0)
            #expect(test.simulator.counters.lost == Int64(lost))
            let rejected: Int64 = test.simulator.counters.rejections.values.reduce(0, +)
            #expect(rejected == Int64(entries.count - lost))
        }
    }

    @Test("A notification's expiry does not shorten the wait for a late answer, and the journal shows its time")
    func expiry() async throws {
        let path = try TestIdentity.shared.get().directory + "/\(UUID().uuidString).journal"
        try await with(path) { test in
            try test.simulator.script("aa", [.accept.delayed(by: .seconds(2))])
            let client = try test.client()
            let arrived = test.clock.now
            let late = try client.submit(test.push().to("aa").with("apns-expiration", "\(arrived / 1000 + 2)"))
            try client.roundTrip(1)
            test.clock.advance(by: .seconds(60))
            try client.run { $0.closed[late] != nil }
            #expect(client.responses[late]?.status == 200)
            #expect(try client.send(test.push()).status == 200)
            let entries = test.simulator.journal()
            #expect(entries.map(\.time) == [arrived, arrived + 60_000])
            #expect(entries.map(\.answeredAt) == [arrived + 60_000, arrived + 60_000])
            #expect(test.simulator.counters.accepted == 2)
            let written = try lines(path)
            #expect(written.count == 3)
            #expect(written.contains(.note(JournalNote(sequence: 1, time: arrived + 60_000, loss: nil))))
        }
    }
}
