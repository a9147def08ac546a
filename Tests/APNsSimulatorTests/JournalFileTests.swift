import APNsSimulator
import Foundation
import StrictJSON
import SystemIO
import TestIdentity
import Testing

@Suite("The journal's file holds every request, however small the journal in memory", .timeLimit(.minutes(5)))
struct JournalFileTests {
    private func withJournalFile(
        _ change: (inout APNsSimulatorConfiguration) -> Void = { _ in }, _ body: (TestSimulator, String) async throws -> Void
    ) async throws {
        let path = try TestIdentity.shared.get().directory + "/\(UUID().uuidString).journal"
        try await withSimulator { configuration in
            configuration.journalFile = path
            change(&configuration)
        } _: {
            try await body($0, path)
        }
    }

    private func entries(_ path: String) throws -> [JournalEntry] {
        var reader = try JournalFileReader(path: path)
        var entries: [JournalEntry] = []
        while let entry = try reader.next() { entries.append(entry) }
        return entries
    }

    @Test("The file holds every answered request, with the same fields as the journal in memory")
    func fields() async throws {
        try await withJournalFile { test, path in
            try ActivityPushes.install(test)
            try test.simulator.script(
                "aa", [.reject(.unregistered, timestamp: 1_700_000_000_123), .answer(status: 418, reason: "Ünknown \"reason\""), .silence])
            let client = try test.client()
            let pushes = [
                test.push(), test.push().with("apns-id", "0a1b2c3d-0000-4000-8000-000000000001"), test.push().to("aa"),
                test.push().to("aa"),
                test.push().to(String(repeating: "AB", count: 256)), test.push().path("/"), test.push().with("apns-topic", nil),
                test.push().with("apns-push-type", "background").with("apns-priority", "5"),
                test.push().body(#"{"aps":{"alert":"Hello"},"marker":-9007199254740993}"#), ActivityPushes.start(test, ["alert": nil]),
                ActivityPushes.start(test).body(#"{"aps":{"event":"update"},"marker":3}"#),
            ]
            for (index, push) in pushes.enumerated() {
                _ = try client.send(push)
                #expect(try entries(path).count == index + 1)
            }
            try client.submit(test.push().to("aa"))
            try client.roundTrip(1)
            _ = try test.client(.sandbox).send(test.push())
            let written = try entries(path)
            #expect(written.count == 13)
            #expect(written.map(\.marker) == Array(repeating: nil, count: 8) + [-9_007_199_254_740_993, nil, 3, nil, nil])
            #expect(written.map(\.activity) == Array(repeating: nil, count: 9) + [.noAlert, .notAStart, nil, nil])
            #expect(written == test.simulator.journal())
        }
    }

    @Test("A ring of two keeps two; the file keeps all; and the counters say what the ring lost")
    func beyondTheRing() async throws {
        try await withJournalFile {
            $0.journalCapacity = 2
            $0.threads = 2
        } _: { test, path in
            let clients = [try test.client(), try test.client()]
            for client in clients { for _ in 0..<50 { #expect(try client.send(test.push()).status == 200) } }
            #expect(test.simulator.journal().map(\.sequence) == [99, 100])
            #expect(try entries(path).map(\.sequence) == Array(1...100))
            #expect(test.simulator.counters.journalOverwritten == 98)
            #expect(test.simulator.counters.journalFileLost == 0)
        }
    }

    @Test("A reader reads a growing file as far as it goes, and continues from there later")
    func growing() async throws {
        try await withJournalFile { test, path in
            for _ in 0..<3 { _ = try test.client().send(test.push()) }
            let whole = try Data(contentsOf: URL(filePath: path))
            let copy = path + ".copy"
            try whole.dropLast(5).write(to: URL(filePath: copy))
            var reader = try JournalFileReader(path: copy)
            #expect(try reader.next()?.sequence == 1)
            #expect(try reader.next()?.sequence == 2)
            #expect(try reader.next() == nil)
            let handle = try #require(FileHandle(forWritingAtPath: copy))
            try handle.seekToEnd()
            try handle.write(contentsOf: whole.suffix(5))
            #expect(try reader.next()?.sequence == 3)
            #expect(try reader.next() == nil)
        }
    }

    @Test("A reader refuses a file that is not a journal")
    func foreign() throws {
        #expect(throws: SimulatorError.self) { try JournalFileReader(path: TestIdentity.shared.get().keyFile) }
        #expect(throws: (any Error).self) { try JournalFileReader(path: "/nowhere") }
        var configuration = APNsSimulatorConfiguration(
            certificateFile: try TestIdentity.shared.get().certificateFile, keyFile: try TestIdentity.shared.get().keyFile, keys: [])
        configuration.journalFile = "/nowhere/journal"
        #expect(throws: SimulatorError.self) { try APNsSimulator(configuration) }
    }

    @Test("A disk that is full midway stops no answer; lost records are counted, and written ones can be read")
    func fullMidway() async throws {
        let identity = try TestIdentity.shared.get()
        let path = identity.directory + "/\(UUID().uuidString).journal"
        // 4096 bytes hold some thirty requests and cut the last one in the middle.
        let program = try RunningProgram(journalFile: path, limits: "-S -f 8")
        let bearer = try identity.key.bearer(issuedAt: WallClock.milliseconds() / 1000)
        let client = try PushClient(port: program.port("production"))
        for _ in 0..<100 { #expect(try client.send(TestPush().with("authorization", bearer)).status == 200) }
        let counters = try await program.control("/v1/counters")
        let lost = try #require(counters["journal"]?["file_lost"]?.integerValue)
        let kept = try entries(path).map(\.sequence)
        #expect(kept == Array(1...100 - lost))
        #expect(kept.count > 20 && lost > 20)
        #expect(try Data(contentsOf: URL(filePath: path)).count < 4096)
        #expect(try await program.control("/healthz")["status"]?.stringValue == "journal_file_incomplete")
        // There is room again. The next record follows the last whole one.
        try TestIdentity.run("prlimit", "--pid", "\(program.id)", "--fsize=unlimited:")
        for _ in 0..<5 { #expect(try client.send(TestPush().with("authorization", bearer)).status == 200) }
        #expect(try entries(path).map(\.sequence) == kept + Array(101...105))
        let log = program.end()
        #expect(log.components(separatedBy: "The journal's file takes nothing more").count == 2)
    }

    @Test("A second simulator that starts by mistake does not take the file away")
    func held() async throws {
        try await withJournalFile { (test, path) async throws in
            #expect(try test.client().send(test.push()).status == 200)
            let error = #expect(throws: SimulatorError.self) { try APNsSimulator(test.simulator.configuration) }
            #expect(error?.description == "journal file \(path): another simulator is writing it")
            #expect(try entries(path).count == 1)
        }
    }

    @Test("The simulator reports a disk that takes nothing at its start")
    func fullDisk() throws {
        let identity = try TestIdentity.shared.get()
        let path = identity.directory + "/\(UUID().uuidString).full"
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "/dev/full")
        var configuration = APNsSimulatorConfiguration(certificateFile: identity.certificateFile, keyFile: identity.keyFile, keys: [])
        configuration.journalFile = path
        #expect(throws: SimulatorError.self) { try APNsSimulator(configuration) }
    }
}
