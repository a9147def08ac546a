import ArgumentParser
import Foundation

/// Sets the simulator's answer times for the delayed sets of ``BenchTokens``.
struct AnswerTimes {
    /// The simulator's control API.
    let control: String

    /// One `PUT` for each token, all over one connection of curl's.
    func set() throws {
        let script = { (milliseconds: Int) in #"{"answers":[{"status":200,"delay_ms":\#(milliseconds)}],"then":"repeat"}"# }
        var lines: [String] = []
        for milliseconds in BenchTokens.delayed {
            for index in 0..<BenchTokens.count {
                let url = "\(control)/v1/devices/\(BenchTokens.hex(index, answerMilliseconds: milliseconds))/script"
                let body = script(milliseconds).replacing("\"", with: "\\\"")
                lines += ["next", "url = \"\(url)\"", "request = PUT", "data = \"\(body)\"", "output = /dev/null", "fail", "silent"]
            }
        }
        let file = URL(filePath: "\(NSTemporaryDirectory())/push-bench-scripts-\(ProcessInfo.processInfo.processIdentifier)")
        try Data(lines.dropFirst().joined(separator: "\n").utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/curl")
        process.arguments = ["--config", file.path]
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw ValidationError("the simulator did not take the answer times") }
    }
}
