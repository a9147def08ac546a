import BenchmarkSupport
import StrictJSON
import SystemIO

/// Streams installations in, as `pushctl import` does, and looks at the last line of the answer.
struct ImportRound {
    let address: SocketAddress
    let key: String
    let process: ServiceProcess
    /// NDJSON in parts that fit the socket's buffers.
    private let parts: [[UInt8]]
    private let count: Int

    struct Result {
        var rate: Double
        /// MiB above what was resident before.
        var peak: Double
        var idle: Double
    }

    init(address: SocketAddress, key: String, process: ServiceProcess, installations count: Int) {
        self.address = address
        self.key = key
        self.process = process
        self.count = count
        var parts: [[UInt8]] = []
        var part: [UInt8] = []
        for number in 0..<count {
            part.append(contentsOf: Population.body(number, id: true).utf8)
            part.append(10)
            if part.count > 256 << 10 {
                parts.append(part)
                part = []
            }
        }
        if !part.isEmpty { parts.append(part) }
        self.parts = parts
    }

    func run() throws -> Result {
        let idle = try process.resident()
        try process.forgetPeak()
        let head = HTTPRequest(
            "POST", "/v1/apps/\(Population.app)/import", key: key, contentType: "application/x-ndjson",
            length: parts.reduce(0) { $0 + $1.count })
        let begin = ContinuousClock.now
        let answer = try HTTPConnection(to: address).exchange([head.bytes] + parts, patience: .seconds(120))
        let seconds = begin.duration(to: .now) / .seconds(1)
        guard answer.status == 200, let last = answer.body.split(separator: 10).last else {
            throw answer.refusal(of: "the import")
        }
        let totals = try JSONValue.parse(Array(last), maximumBytes: 1 << 20)
        guard totals["done"]?.boolValue == true, totals["failed"]?.integerValue ?? 0 == 0 else {
            throw answer.refusal(of: "the import")
        }
        return Result(rate: Double(count) / seconds, peak: max(0, try process.peak() - idle), idle: idle)
    }
}
