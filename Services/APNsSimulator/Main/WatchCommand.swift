import APNsSimulator
import ArgumentParser
import Foundation

/// `apns-simulator watch`: arrivals on the terminal as they come.
struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print what arrives at the devices of a running simulator, as it comes.",
        discussion: "One line per accepted push for an installed device: time, what became of it, device, topic, text.")

    @Argument(help: "The simulator's control API.") var url = "http://127.0.0.1:2199"
    @Option(help: "Only for this device token, or those that end with it.") var token: String?
    @Option(help: "End after so many lines.") var count: Int?
    @Flag(help: "Begin with what the simulator remembers.") var fromStart = false

    func validate() throws {
        if let count, count < 1 { throw ValidationError("--count is at least 1.") }
    }

    func run() async throws {
        var left = count ?? .max
        try await ArrivalWatch(url: url).follow(fromStart: fromStart) { line in
            if let token, !line.token.hasSuffix(token.lowercased()) { return true }
            // Not `print`: into a pipe it would write in blocks, late.
            try FileHandle.standardOutput.write(contentsOf: Data((line.text + "\n").utf8))
            left -= 1
            return left > 0
        }
    }
}
