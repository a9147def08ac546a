import Foundation
import Testing

/// Replays the inputs of `deploy/fuzz` on every run, so that a change cannot bring an old crash back.
@Suite("The fuzzer's corpus does no harm", .timeLimit(.minutes(5)))
struct FuzzCorpusTests {
    @Test("The simulator survives every input", arguments: FuzzTarget.allCases)
    func replay(_ target: FuzzTarget) throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Fuzzing/Corpus/\(target.rawValue)")
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        #expect(files.count >= 5)
        for file in files { target.run(Array(try Data(contentsOf: file))) }
    }
}
