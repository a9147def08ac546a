import PushModel
import TestSupport

/// The device tokens of the benchmarks: as many as h2load has paths, the same for every contender, one set for each answer time.
enum BenchTokens {
    static let count = 10_000
    /// Answer times in milliseconds that the benchmark sets in the simulator. It answers every other set at once.
    static let delayed = [20, 50]

    /// Thirty-two bytes that look random and are not, so that a set is the same in every process.
    static func bytes(_ index: Int, answerMilliseconds: Int) -> [UInt8] {
        var random = SeededGenerator(seed: UInt64(answerMilliseconds) << 32 | UInt64(index % count))
        var bytes: [UInt8] = []
        for _ in 0..<4 {
            let mixed = random.next()
            for byte in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: mixed >> UInt64(8 * byte))) }
        }
        return bytes
    }

    static func hex(_ index: Int, answerMilliseconds: Int) -> String { hexText(bytes(index, answerMilliseconds: answerMilliseconds)) }
}

/// The body of every request: an alert of so many bytes in all, at least thirty.
func alertPayload(bytes: Int) -> String { #"{"aps":{"alert":"\#(String(repeating: "x", count: bytes - 20))"}}"# }
