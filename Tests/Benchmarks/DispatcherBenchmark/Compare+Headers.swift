import BenchmarkSupport
import Foundation
import HTTP2
import PushModel

/// The size of one request's headers on the wire.
///
/// h2load repeats one `apns-id`, which then costs it a byte, while our ids all differ. So the baseline is h2load's encoder (nghttp2 with
/// its defaults) with the same headers as ours. A second figure with one id for all shows that it is h2load's encoder.
extension DispatcherBenchmark.Compare {
    func measureHeaders(beside h2load: H2Load) throws -> [Measure] {
        let tap = try WireTap(to: port)
        defer { tap.stop() }
        let load = H2Load.Load(requests: 20_000, connections: 4, payloadBytes: 110)
        _ = try h2load.run(load, at: "https://localhost:\(tap.port)")
        let theirs = headerBytes(tap.takePlaintext(), requests: load.requests, payload: load.payloadBytes)
        let sent = try client(load, port: tap.port).sent
        let ours = headerBytes(tap.takePlaintext(), requests: sent, payload: load.payloadBytes)
        return [
            Measure(
                name: "headers: every request its own apns-id", value: ours, unit: "bytes/request", baseline: "h2load's encoder",
                baselineValue: try encoded(load.requests, h2load, repeatsID: false), bar: .ratioAtMost(1.05)),
            Measure(
                name: "headers: h2load, one apns-id for all", value: theirs, unit: "bytes/request", baseline: "h2load's encoder",
                baselineValue: try encoded(load.requests, h2load, repeatsID: true)),
        ]
    }

    /// Subtracts the heads of two frames, HEADERS and DATA, and the body. The other frames of a connection are below a thousandth.
    private func headerBytes(_ plaintext: Int, requests: Int, payload: Int) -> Double {
        Double(plaintext) / Double(requests) - 18 - Double(payload)
    }

    private func encoded(_ count: Int, _ h2load: H2Load, repeatsID: Bool) throws -> Double {
        let session = try HTTP2ClientSession()
        var block = HeaderBlock()
        for (name, value) in [(":method", "POST"), (":scheme", "https"), (":authority", "localhost:\(port)")] { block.append(name, value) }
        let path = block.append(":path", "")
        var id: Int?
        for header in h2load.headers {
            guard let colon = header.firstRange(of: ": ") else { continue }
            let (name, value) = (String(header[..<colon.lowerBound]), String(header[colon.upperBound...]))
            let index = block.append(name, value)
            if name == "apns-id" { id = index }
        }
        if repeatsID { for (name, value) in [("user-agent", "h2load"), ("content-length", "110")] { block.append(name, value) } }
        var output: [UInt8] = []
        while try session.gatherOutput(into: &output) {}
        output.removeAll(keepingCapacity: true)
        var bytes = 0
        for number in 0..<count {
            block.setValue("/3/device/" + BenchTokens.hex(number, answerMilliseconds: 0), at: path)
            if let id, !repeatsID { block.setValue(PushID.random().description, at: id) }
            _ = try session.submit(block, body: [])
            while try session.gatherOutput(into: &output) {}
            bytes += output.count - 9
            output.removeAll(keepingCapacity: true)
        }
        return Double(bytes) / Double(count)
    }
}
