import APNsSimulator
import ArgumentParser
import Foundation
import StrictJSON

extension APNsSimulatorCommand {
    struct Journal: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a journal file (JOURNAL_FILE): one JSON object per line, as GET /v1/journal shows a request.")
        @Argument(help: "The file, also one that is being written.") var file: String
        @Option(help: "Only requests with a greater sequence number.") var after: Int64 = 0

        func run() throws {
            var reader = try JournalFileReader(path: file)
            var text = Data()
            while let entry = try reader.next() {
                guard entry.sequence > after else { continue }
                var line = JSONWriter()
                entry.write(to: &line)
                text.append(contentsOf: line.bytes)
                text.append(0x0a)
                if text.count > 1 << 18 {
                    try FileHandle.standardOutput.write(contentsOf: text)
                    text.removeAll(keepingCapacity: true)
                }
            }
            try FileHandle.standardOutput.write(contentsOf: text)
        }
    }
}
