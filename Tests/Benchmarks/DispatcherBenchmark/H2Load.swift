import ArgumentParser
import Foundation
import Glibc
import OpenSSL
import PushModel

/// nghttp2's own load generator, with the headers and the payload size of a push: the bare protocol's cost.
struct H2Load {
    let origin: String
    let connections: Int
    let core: Int
    private let authorization: String
    private let targets: String
    private let payload: String

    init(origin: String, keyFile: String, keyID: String, teamID: String, connections: Int, core: Int) throws {
        self.origin = origin
        self.connections = connections
        self.core = core
        let key = try ES256PrivateKey(pemFile: keyFile)
        let now = Int(Date().timeIntervalSince1970)
        let signed = [#"{"alg":"ES256","kid":"\#(keyID)"}"#, #"{"iss":"\#(teamID)","iat":\#(now)}"#]
            .map { Base64URL.encode(Array($0.utf8)) }.joined(separator: ".")
        authorization = "bearer \(signed).\(Base64URL.encode(try key.sign(Array(signed.utf8))))"

        let folder = NSTemporaryDirectory()
        targets = "\(folder)/push-bench-targets-\(getpid())"
        payload = "\(folder)/push-bench-payload-\(getpid())"
        let paths = (0..<10_000).map { _ in "\(origin)/3/device/\(hexText(PushID.random().bytes + PushID.random().bytes))" }
        try Data(paths.joined(separator: "\n").utf8).write(to: URL(filePath: targets))
        try Data(#"{"aps":{"alert":"\#(String(repeating: "x", count: 173))"}}"#.utf8).write(to: URL(filePath: payload))
    }

    func run(requests: Int) throws -> Sample {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/taskset")
        process.arguments =
            ["-c", "\(core)", "h2load", "-n", "\(requests)", "-c", "\(connections)", "-m", "500", "-t", "1", "-d", payload, "-i", targets]
            + [
                "authorization: \(authorization)", "apns-topic: com.example.shop", "apns-push-type: alert", "apns-priority: 10",
                "apns-id: \(PushID.random())", "apns-expiration: \(Int(Date().timeIntervalSince1970) + 3600)",
            ].flatMap { ["-H", $0] }
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
            text.contains("status codes: \(requests) 2xx")
        else { throw ValidationError("h2load did not get \(requests) answers of 200:\n\(text.suffix(600))") }
        return Sample(count: requests, seconds: Double(requests) / rate, cpuSeconds: Self.childrenCPU() - before)
    }

    /// User and system time of all children that have ended, in seconds.
    private static func childrenCPU() -> Double {
        var usage = rusage()
        unsafe getrusage(RUSAGE_CHILDREN.rawValue, &usage)
        return [usage.ru_utime, usage.ru_stime].reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1_000_000 }
    }
}
