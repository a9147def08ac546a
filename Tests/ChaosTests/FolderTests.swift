import ChaosChecking
import ChaosLedger
import FoundationEssentials
import PushModel
import StrictJSON
import Testing

@testable import APNsSimulator

@Suite("The checker judges a run's folder like the same ledgers in memory, and reports no whole token", .timeLimit(.minutes(5)))
struct FolderTests {
    private func withFolder(_ body: (RunFolder) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chaos-" + PushID.random().description)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { _ = try? FileManager.default.removeItem(at: folder) }
        try body(RunFolder(folder.path(percentEncoded: false)))
    }

    private func write(_ story: Story, to folder: RunFolder, leavingOut missing: Int64 = 0) throws {
        try folder.writeRun(story.record)
        try LedgerWriter<FaultRecord>(path: folder.faults).append(story.faultList)
        try LedgerWriter<DeviceRecord>(path: folder.devices).append(story.deviceList)
        try LedgerWriter<ClientRecord>(path: folder.clients).append(story.clientList)
        try LedgerWriter<ReportedRecord>(path: folder.reported).append(story.reportedList)
        try LedgerWriter<ShownRecord>(path: folder.shown).append(story.shownList)
        try LedgerWriter<SampleRecord>(path: folder.samples).append(story.sampleList)
        // Written by the simulator itself.
        let journal = try JournalFile(path: folder.journal)
        var sequence: Int64 = 0
        story.pushes { push in
            sequence += 1
            guard sequence != missing else { return }
            let failure = journal.write { bytes in
                bytes.removeAll()
                record(of: push).write(sequence: sequence, to: &bytes)
            }
            #expect(failure == nil)
        }
    }

    private func record(of push: Push) -> JournalRecord {
        let (action, status): (ScriptedAnswer.Action, Int) =
            switch push.fate {
            case .accepted: (.answer, 200)
            case .refused(let status): (.answer, status)
            case .unprocessed: (.goAway, 200)
            case .unanswered: (.silence, 200)
            }
        return JournalRecord(
            time: push.time / 1000, connection: UInt32(push.connection), stream: 1, token: push.token.flatMap { TokenKey(hex: $0.hex) },
            id: MessageID(high: push.id.high, low: push.id.low), topic: Array(push.topic.utf8), type: .alert,
            environment: .production, action: action,
            answer: StatusAnswer(status: status, reason: status == 200 ? nil : "Reason", timestamp: push.timestamp.map { $0 / 1000 }),
            isShown: true,
            marker: push.marker)
    }

    @Test("The verdict on a folder equals the verdict on the same ledgers in memory") func theSameVerdict() throws {
        for seed in 0..<5 as Range<UInt64> {
            var story = PerfectPlatform(seed: seed, isFaulty: true).story
            // One finding of each kind for the report.
            story.push(99, 1, at: 9000)
            story.register("ada", 1, at: 250_000)
            try withFolder { folder in
                try write(story, to: folder)
                let (read, memory) = (try Checker.judge(FolderSource(folder)).verdict, try story.judge())
                #expect(read.counts == memory.counts)
                #expect(read.examples == memory.examples)
                #expect(read.figures == memory.figures)
                #expect(!read.isKept)
            }
        }
    }

    @Test("A journal with a gap cannot be judged") func journalGap() throws {
        try withFolder { folder in
            try write(.ordinary, to: folder, leavingOut: 1)
            let error = #expect(throws: LedgerError.self) { try Checker.judge(FolderSource(folder)) }
            #expect(error?.message == "requests 1 to 1 are missing")
        }
    }

    @Test("A ledger that is missing cannot be judged") func aLedgerIsMissing() throws {
        try withFolder { folder in
            #expect(throws: LedgerError.self) { try Checker.judge(FolderSource(folder)) }
        }
    }

    @Test("The report names every promise that was broken, and shows no whole token") func report() throws {
        var story = Story.ordinary
        story.fault(.kill, "dispatcher-1", from: 60_000, to: 60_000)
        story.logout(1, at: 5020)
        story.push(1, 1, at: 20_000)
        story.push(9, 2, at: 20_000)
        let checker = try Checker.judge(story)
        let report = Report(checker)
        #expect(!report.isKept)
        for promise in [Promise.duplicated, .afterLogout, .phantom] {
            #expect(report.text.contains("\(promise.rawValue): "))
            #expect(report.text.contains(Story.token(1).hint))
        }
        let json = report.json(withFindings: true)
        for text in [report.text, String(decoding: json, as: UTF8.self)] { #expect(!text.contains(Story.token(1).hex)) }
        let value = try JSONValue.parse(json)
        #expect(value["kept"]?.boolValue == false)
        #expect(value["findings"]?["phantom"]?.arrayValue?.count == 1)
        let phantom = value["measures"]?.arrayValue?.first { $0["name"]?.stringValue == "phantom" }
        #expect(phantom?["value"]?.integerValue == 1)
        #expect(phantom?["holds"]?.boolValue == false)
        let plot = Plot(checker).svg
        #expect(plot.hasPrefix("<svg ") && plot.hasSuffix("</svg>\n"))
        #expect(plot.contains("kill dispatcher-1"))
    }
}
