import Foundation
import Fuzzing
import Testing

/// Replays the inputs of `deploy/fuzz` on every run, so that a change cannot bring an old crash back.
@Suite("The fuzzer's corpus does the dispatcher no harm", .timeLimit(.minutes(5)))
struct FuzzCorpusTests {
    @Test("The dispatcher survives every input", arguments: FuzzTarget.allCases)
    func replay(_ target: FuzzTarget) throws {
        let corpus = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Fuzzing/Corpus/\(target.rawValue).txt")
        let inputs = try FuzzCorpus.inputs(in: corpus)
        #expect(inputs.count >= 5)
        for input in inputs { target.run(input) }
    }
}
