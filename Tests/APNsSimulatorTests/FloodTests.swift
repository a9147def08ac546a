import APNsSimulator
import HTTP2
import Testing

/// Too many frames, each of which is allowed.
@Suite("A flood ends the connection that it came over, and no other", .timeLimit(.minutes(5)))
struct FloodTests {
    private static let request = StrictnessTests.request

    struct Flood: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let bytes: [UInt8]

        init(_ name: String, _ bytes: [UInt8]) {
            testDescription = name
            self.bytes = bytes
        }
    }

    private static let resets = (0..<3000).flatMap { number -> [UInt8] in
        let stream = UInt32(2 * number + 1)
        return RawFrame.headers(stream, request).bytes + RawFrame(kind: .resetStream, stream: stream, payload: big(8)).bytes
    }

    static let floods: [Flood] = [
        Flood("streams that are reset at once (CVE-2023-44487)", resets),
        Flood(
            "CONTINUATION without end (CVE-2024-28182)",
            RawFrame.headers(1, request, flags: 0).bytes
                + (0..<2000).flatMap { _ in RawFrame(kind: .continuation, stream: 1, payload: RawFrame.block([("x", "y")])).bytes }),
        Flood(
            "PINGs without end",
            (0..<20_000).flatMap { _ in RawFrame(kind: .ping, payload: [UInt8](repeating: 1, count: 8)).bytes }),
        Flood("SETTINGS without end", (0..<20_000).flatMap { _ in RawFrame.setting(3, 100).bytes }),
    ]

    @Test("The simulator serves other clients during and after a flood", arguments: floods)
    func flood(_ flood: Flood) async throws {
        try await withSimulator { configuration in
            configuration.streamGate = false
        } _: { test in
            let good = try test.client()
            #expect(try good.send(test.push()).status == 200)
            let bad = try RawClient(port: test.simulator.productionPort)
            try bad.send(flood.bytes)
            #expect(try good.send(test.push()).status == 200)
            try bad.wait { $0.errorCode ?? 0 != 0 && $0.kind == RawFrame.Kind.goAway.rawValue }
            #expect(try good.send(test.push()).status == 200)
            #expect(try test.client().send(test.push()).status == 200)
        }
    }
}
