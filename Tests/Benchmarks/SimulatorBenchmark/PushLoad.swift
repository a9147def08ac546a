import ArgumentParser
import Foundation
import OpenSSL

/// h2load with a push's headers, a payload of 200 bytes and distinct tokens.
struct PushLoad {
    let requests: Int
    let connections: Int
    let core: Int
    private let authorization: String
    private let folder: URL

    init(keyFile: String, requests: Int, connections: Int, core: Int) throws {
        self.requests = requests
        self.connections = connections
        self.core = core
        let key = try ES256PrivateKey(pemFile: keyFile)
        let now = Int(Date().timeIntervalSince1970)
        let signed = [#"{"alg":"ES256","kid":"DEMO123456"}"#, #"{"iss":"TEAM123456","iat":\#(now)}"#]
            .map { Base64URL.encode(Array($0.utf8)) }.joined(separator: ".")
        authorization = "bearer \(signed).\(Base64URL.encode(try key.sign(Array(signed.utf8))))"
        // Beside the key: the caller's folder, which it clears away.
        folder = URL(filePath: keyFile).deletingLastPathComponent()
        try Data(#"{"aps":{"alert":"\#(String(repeating: "x", count: 180))"}}"#.utf8).write(to: folder.appending(path: "payload"))
    }

    /// A file of ten thousand addresses that end with a device token each.
    func targets(_ prefix: String) throws -> String {
        try file((0..<10_000).map { _ in prefix + token() })
    }

    func target(_ address: String) throws -> String { try file([address]) }

    private func token() -> String {
        (0..<4).map { _ in
            let digits = String(UInt64.random(in: .min ... .max), radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }

    private func file(_ addresses: [String]) throws -> String {
        let url = folder.appending(path: "targets-\(UUID().uuidString)")
        try Data(addresses.joined(separator: "\n").utf8).write(to: url)
        return url.path()
    }

    func run(_ contender: Contender) throws -> Sample {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/taskset")
        process.arguments =
            ["-c", "\(core)", "h2load", "-n", "\(requests)", "-c", "\(connections)", "-m", "250", "-t", "1"]
            + ["-d", folder.appending(path: "payload").path(), "-i", contender.targets]
            + [
                "authorization: \(authorization)", "apns-topic: com.example.shop", "apns-push-type: alert", "apns-priority: 10",
                "apns-id: \(UUID().uuidString.lowercased())", "apns-expiration: \(Int(Date().timeIntervalSince1970) + 3600)",
            ].flatMap { ["-H", $0] }
        let output = Pipe()
        process.standardOutput = output
        let before = try cpuSeconds(of: contender.process)
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        // "finished in 2.10s, 47595.45 req/s, …" and "status codes: 100000 2xx, …"
        guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix("finished in ") }),
            let rate = line.split(separator: " ").dropFirst(3).first.flatMap({ Double($0) }), text.contains("status codes: \(requests) 2xx")
        else { throw ValidationError("h2load did not get \(requests) answers of 200 from \(contender.name):\n\(text.suffix(600))") }
        return Sample(rate: rate, cpuMicroseconds: (try cpuSeconds(of: contender.process) - before) * 1_000_000 / Double(requests))
    }

    /// User and system time so far (proc(5): fields 14 and 15 of stat, in hundredths of a second on Linux).
    private func cpuSeconds(of process: Int) throws -> Double {
        let text = try String(contentsOf: URL(filePath: "/proc/\(process)/stat"), encoding: .utf8)
        // The name in brackets may hold blanks; what follows does not.
        let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else {
            throw ValidationError("there is no process \(process)")
        }
        return (user + system) / 100
    }
}

/// One round of one contender.
struct Sample {
    let rate: Double
    let cpuMicroseconds: Double
}
