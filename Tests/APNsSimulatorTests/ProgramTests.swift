import APNsSimulator
import Foundation
import Observability
import TestIdentity
import Testing

@Suite("The program says in one sentence what is wrong, and where", .timeLimit(.minutes(5)))
struct ProgramTests {
    private static let good = ["TLS_CERTIFICATE_FILE": "C", "TLS_KEY_FILE": "K", "KEYS_FILE": "J"]

    /// Replaces file names in the settings by paths of valid files.
    private func settings(_ changes: [String: String]) throws -> [String: String] {
        let identity = try TestIdentity.shared.get()
        let folder = identity.directory + "/" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let keys = #"{"v":1,"keys":[{"team_id":"T","key_id":"K","public_key_file":"nowhere.pub","environments":["sandbox"]}]}"#
        try Data(keys.utf8).write(to: URL(filePath: folder + "/bad-keys.json"))
        try Data(#"{"v":1,"keys":[]}"#.utf8).write(to: URL(filePath: folder + "/keys.json"))
        let files = [
            "C": identity.certificateFile, "K": identity.keyFile, "J": folder + "/keys.json", "BAD KEYS": folder + "/bad-keys.json",
        ]
        let base = Self.good.merging(["PRODUCTION_PORT": "0", "SANDBOX_PORT": "0", "CONTROL_PORT": "0"]) { own, _ in own }
        return base.merging(changes) { _, change in change }.mapValues { files[$0] ?? $0 }
    }

    @Test(
        "A wrong flag, file or setting ends the program with one sentence that names the place",
        arguments: [
            (["--bogus"], [:], "Unknown option '--bogus'"),
            (["--scenario", "nope"], [:], "no scenario is called nope: there are calm, bad-day"),
            (["--scenario-file", "/nowhere"], [:], "the scenario file /nowhere cannot be used: there is no such file"),
            (["scenarios", "--check", "/"], [:], "the scenario file / cannot be used: it is a folder"),
            (["journal", "/nowhere"], [:], "/nowhere cannot be read: open: No such file or directory"),
            (["journal", "/"], [:], "/ cannot be read: read: Is a directory"),
            (["watch", "bogus"], [:], "bogus is not the URL of a control API"),
            (["watch", "http://127.0.0.1:65536"], [:], "it has a port that is not from 1 to 65535"),
            (["watch", "http://127.0.0.1:1"], [:], "No simulator answers at http://127.0.0.1:1: connect: Connection refused"),
            ([], ["KEYS_FILE": ""], "KEYS_FILE must be the path of a readable file"),
            ([], ["KEYS_FILE": "BAD KEYS"], "nowhere.pub: there is no such file"),
            ([], ["TLS_CERTIFICATE_FILE": "J"], "keys.json with its key in"),
            ([], ["PRODUCTION_PORT": "x"], "PRODUCTION_PORT must be a whole number from 0 to 65535"),
            ([], ["REQUESTS_PER_SECOND": "-1"], "REQUESTS_PER_SECOND must be a whole number from 0 to"),
            ([], ["JOURNAL_FILE": "/nowhere/j"], "journal file /nowhere/j: open: No such file or directory"),
            ([], ["SCENARIO_FILE": "J"], "/name: missing, required"),
        ] as [([String], [String: String], String)])
    func wrong(_ arguments: [String], _ changes: [String: String], _ sentence: String) throws {
        let ended = try TestProgram.run(arguments, settings: settings(changes))
        #expect(ended.status != 0)
        #expect(ended.output.isEmpty)
        let first = try #require(ended.errors.split(separator: "\n").first)
        #expect(first.hasPrefix("Error: "))
        #expect(first.contains(sentence), "\(first)")
    }

    @Test("The program names a port that is taken", arguments: ["PRODUCTION_PORT", "SANDBOX_MANAGEMENT_PORT", "CONTROL_PORT"])
    func takenPort(_ variable: String) async throws {
        try await withSimulator { test in
            let port = test.simulator.productionPort
            let ended = try TestProgram.run([], settings: settings([variable: "\(port)"]))
            #expect(ended.status != 0)
            #expect(
                ended.errors.contains("Error: \(variable) \(port) on 127.0.0.1 is taken; stop the other program or choose another port"))
        }
    }

    @Test(
        "The program names an address that is not this machine's",
        arguments: ["192.0.2.1": "is no address of this machine", "a b": "cannot be resolved"])
    func foreignAddress(_ host: String, _ sentence: String) throws {
        let ended = try TestProgram.run([], settings: settings(["HOST": host]))
        #expect(ended.status != 0)
        #expect(ended.errors.contains("Error: HOST \(host) \(sentence)"), "\(ended.errors)")
    }

    @Test("The help fits a terminal and names every setting")
    func help() throws {
        let help = try TestProgram.run(["--help"])
        #expect(help.status == 0)
        for setting in SimulatorSetting.all { #expect(help.output.contains("\n  " + setting.variable + "  ")) }
        #expect(help.output.split(separator: "\n").allSatisfy { $0.count <= 80 })
        // If ArgumentParser broke a line again, the rest would begin at the margin.
        let table = help.output.split(separator: "\n").drop { !$0.hasPrefix("  HOST ") }.prefix { !$0.hasPrefix("The keys file") }
        #expect(table.allSatisfy { $0.hasPrefix("  ") })
    }

    @Test("A ready-made scenario that the program prints is a valid file", arguments: ReadyScenario.allCases)
    func scenarios(_ ready: ReadyScenario) throws {
        let printed = try TestProgram.run(["scenarios", ready.rawValue])
        let file = try TestIdentity.shared.get().directory + "/\(UUID().uuidString).json"
        try Data(printed.output.utf8).write(to: URL(filePath: file))
        let checked = try TestProgram.run(["scenarios", "--check", file])
        #expect(checked.status == 0)
        #expect(checked.output.contains("scenario \(ready.rawValue), seed"))
    }
}
