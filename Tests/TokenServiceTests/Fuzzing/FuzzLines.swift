import NIOCore
import StrictJSON

@testable import TokenServiceUpkeep

/// However a stream is cut into pieces, its lines are the same.
enum FuzzLines {
    private static let maximumBytes = 512

    /// - Parameter bytes: The first one says how large the pieces are.
    static func run(_ bytes: [UInt8]) {
        guard let first = bytes.first, let app = FuzzBody.app else { return }
        let stream = Array(bytes.dropFirst())
        let whole = lines(stream, pieces: max(1, stream.count))
        precondition(whole == lines(stream, pieces: Int(first) + 1), "pieces make other lines")
        for (number, line) in whole.enumerated() {
            guard case .registration = ImportLine(line, number: number + 1, app: app).content, case .text(let text) = line else { continue }
            do {
                FuzzBody.expectDescribed(try JSONValue.parse(text, maximumBytes: maximumBytes), as: "importInstallations")
            } catch {
                preconditionFailure("a registration that is no JSON: \(error)")
            }
        }
    }

    private static func lines(_ stream: [UInt8], pieces: Int) -> [LineSplitter.Line] {
        var splitter = LineSplitter(maximumBytes: maximumBytes)
        var lines: [LineSplitter.Line] = []
        for start in stride(from: 0, to: stream.count, by: pieces) {
            var buffer = ByteBuffer(bytes: stream[start..<min(start + pieces, stream.count)])
            while let line = splitter.next(in: &buffer) { lines.append(line) }
        }
        if let last = splitter.finish() { lines.append(last) }
        return lines
    }
}
