import ArgumentParser
import ChaosChecking
import ChaosLedger
import Foundation

/// Judges one run. The status is 0 if every promise was kept, 1 if one was broken, 2 if the run cannot be judged.
@main
struct ChaosCheckerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ChaosChecker",
        abstract: "Judges a chaos run by its ledgers and nothing else.",
        discussion:
            """
            Writes report.txt, report.json and plot.svg into the run's folder. Ends with 0 where every promise was kept, 1 where one was \
            broken, 2 where nothing can be judged.
            """
    )

    @Argument(help: "The run's folder.") var folder: String
    @Option(help: "Also write the report's JSON object there.") var json: String?

    func run() throws {
        let folder = RunFolder(folder)
        let report: Report
        do {
            let checker = try Checker.judge(FolderSource(folder))
            report = Report(checker)
            try write(Array(report.text.utf8), to: folder.file("report.txt"))
            try write(report.json(withFindings: true), to: folder.file("report.json"))
            try write(Array(Plot(checker).svg.utf8), to: folder.file("plot.svg"))
            if let json { try write(report.json(withFindings: true), to: json) }
        } catch {
            FileHandle.standardError.write(Data("ChaosChecker: nothing can be judged: \(error)\n".utf8))
            throw ExitCode(2)
        }
        print(report.text)
        print(String(decoding: report.json(withFindings: false), as: UTF8.self))
        if !report.isKept { throw ExitCode(1) }
    }

    private func write(_ bytes: [UInt8], to path: String) throws {
        try Data(bytes).write(to: URL(filePath: path))
    }
}
