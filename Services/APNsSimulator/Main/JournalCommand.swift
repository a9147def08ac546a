import APNsSimulator
import ArgumentParser
import Foundation
import StrictJSON

extension APNsSimulatorCommand {
    struct Journal: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a journal file (JOURNAL_FILE): one JSON object per line.",
            discussion: """
                A line is a request as GET /v1/journal shows it, or what became of a request later: when its late answer was handed over, \
                or why
                an answer was lost.
                """)
        @Argument(help: "The file, also one that is being written.") var file: String
        @Option(help: "Only requests with a greater sequence number.") var after: Int64 = 0

        func run() throws {
            var reader = try JournalFileReader(path: file)
            var text = Data()
            while let line = try reader.nextLine() {
                var writer = JSONWriter()
                switch line {
                case .request(let entry) where entry.sequence > after: entry.write(to: &writer)
                case .note(let note) where note.sequence > after: note.write(to: &writer)
                default: continue
                }
                text.append(contentsOf: writer.bytes)
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
