import PushModel

/// The device tokens of the benchmarks: as many as h2load has paths, the same for every contender, one set for each answer time.
enum BenchTokens {
    static let count = 10_000
    /// Answer times in milliseconds that the benchmark sets in the simulator. It answers every other set at once.
    static let delayed = [20, 50]

    /// Thirty-two bytes that look random and are not, so that a set is the same in every process.
    static func bytes(_ index: Int, answerMilliseconds: Int) -> [UInt8] {
        var state = UInt64(answerMilliseconds) << 32 | UInt64(index % count)
        var bytes: [UInt8] = []
        for _ in 0..<4 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
            mixed ^= mixed >> 31
            for byte in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: mixed >> UInt64(8 * byte))) }
        }
        return bytes
    }

    static func hex(_ index: Int, answerMilliseconds: Int) -> String { hexText(bytes(index, answerMilliseconds: answerMilliseconds)) }
}

/// The body of every request: an alert of so many bytes in all, at least thirty.
func alertPayload(bytes: Int) -> String { #"{"aps":{"alert":"\#(String(repeating: "x", count: bytes - 20))"}}"# }
