import ArgumentParser
import Foundation
import Glibc
import OpenSSL
import PushModel

/// nghttp2's own load generator, with the headers and the payload size of a push: the bare protocol's cost.
struct H2Load {
    /// The requests and connections of one run.
    struct Load {
        var requests: Int
        var connections = 2
        /// Streams at once on each connection, as many as the simulator allows.
        var streams = 1000
        var payloadBytes = 200
        var answerMilliseconds = 0
    }

    let core: Int
    private let authorization: String
    private let folder: URL

    init(keyFile: String, keyID: String = "DEMO123456", teamID: String = "TEAM123456", core: Int) throws {
        self.core = core
        let key = try ES256PrivateKey(pemFile: keyFile)
        let now = Int(Date().timeIntervalSince1970)
        let signed = [#"{"alg":"ES256","kid":"\#(keyID)"}"#, #"{"iss":"\#(teamID)","iat":\#(now)}"#]
            .map { Base64URL.encode(Array($0.utf8)) }.joined(separator: ".")
        authorization = "bearer \(signed).\(Base64URL.encode(try key.sign(Array(signed.utf8))))"
        folder = URL(filePath: "\(NSTemporaryDirectory())/push-bench-\(getpid())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    /// - Parameter origin: `https://host:port`.
    func run(_ load: Load, at origin: String) throws -> Sample {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/taskset")
        process.arguments =
            ["-c", "\(core)", "h2load", "-n", "\(load.requests)", "-c", "\(load.connections)", "-m", "\(load.streams)", "-t", "1"]
            + ["-d", try payload(load.payloadBytes), "-i", try targets(load, origin)] + headers.flatMap { ["-H", $0] }
        let output = Pipe()
        process.standardOutput = output
        let before = Self.childrenCPU()
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        // "finished in 2.10s, 47595.45 req/s, …" and "status codes: 100000 2xx, …"
        guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix("finished in ") }),
            let rate = line.split(separator: ",").dropFirst().first.flatMap({ Double($0.dropLast(6).trimmingCharacters(in: .whitespaces)) }
            ),
            text.contains("status codes: \(load.requests) 2xx")
        else { throw ValidationError("h2load did not get \(load.requests) answers of 200:\n\(text.suffix(600))") }
        return Sample(count: load.requests, seconds: Double(load.requests) / rate, cpuSeconds: Self.childrenCPU() - before)
    }

    /// The headers beside the pseudo-headers.
    var headers: [String] {
        [
            "authorization: \(authorization)", "apns-topic: com.example.shop", "apns-push-type: alert", "apns-priority: 10",
            "apns-id: \(PushID.random())", "apns-expiration: \(Int(Date().timeIntervalSince1970) + 3600)",
        ]
    }

    private func payload(_ bytes: Int) throws -> String {
        try file("payload-\(bytes)") { alertPayload(bytes: bytes) }
    }

    private func targets(_ load: Load, _ origin: String) throws -> String {
        try file("targets-\(load.answerMilliseconds)-\(origin.filter(\.isNumber))") {
            (0..<BenchTokens.count).map { "\(origin)/3/device/\(BenchTokens.hex($0, answerMilliseconds: load.answerMilliseconds))" }
                .joined(separator: "\n")
        }
    }

    private func file(_ name: String, _ content: () -> String) throws -> String {
        let url = folder.appending(path: name)
        if !FileManager.default.fileExists(atPath: url.path) { try Data(content().utf8).write(to: url) }
        return url.path
    }

    func removeFiles() throws { try FileManager.default.removeItem(at: folder) }

    /// User and system time of all children that have ended, in seconds.
    private static func childrenCPU() -> Double {
        var usage = rusage()
        unsafe getrusage(RUSAGE_CHILDREN.rawValue, &usage)
        return processorSeconds(usage)
    }
}

/// User and system time.
func processorSeconds(_ usage: rusage) -> Double {
    [usage.ru_utime, usage.ru_stime].reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1_000_000 }
}

/// One round of one contender.
struct Sample {
    let count: Int
    let seconds: Double
    let cpuSeconds: Double

    var rate: Double { Double(count) / seconds }
    var cpuMicroseconds: Double { cpuSeconds * 1_000_000 / Double(count) }
}
