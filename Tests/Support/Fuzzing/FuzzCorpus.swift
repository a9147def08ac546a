package import Foundation

/// The inputs of one fuzz target: a file with a line `name base64` for each. Tests replay them; `deploy/fuzz` unpacks them for libFuzzer.
package enum FuzzCorpus {
    package struct Malformed: Error, CustomStringConvertible {
        package let description: String
    }

    package static func inputs(in file: URL) throws -> [[UInt8]] {
        try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map { line in
            let words = line.split(separator: " ", omittingEmptySubsequences: false)
            guard words.count == 2, let input = Data(base64Encoded: String(words[1])) else {
                throw Malformed(description: "\(file.lastPathComponent): not a name and base64: \(line.prefix(80))")
            }
            return Array(input)
        }
    }
}
