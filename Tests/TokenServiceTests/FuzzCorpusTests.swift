import Foundation
import Fuzzing
import Testing

/// What `deploy/fuzz` has found or was given: replayed on every run, so that a change cannot bring an old crash back.
@Suite("The fuzzer's corpus does the token service no harm", .timeLimit(.minutes(5)))
struct FuzzCorpusTests {
    @Test("Every input is survived", arguments: FuzzTarget.allCases)
    func replay(_ target: FuzzTarget) throws {
        let corpus = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Fuzzing/Corpus/\(target.rawValue).txt")
        let inputs = try FuzzCorpus.inputs(in: corpus)
        #expect(inputs.count >= 5)
        for input in inputs { target.run(input) }
    }
}
