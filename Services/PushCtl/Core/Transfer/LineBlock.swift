import NIOCore

/// Whole lines of a file, together, with their numbers.
struct LineBlock: Equatable, Sendable {
    /// 1 for the file's first line.
    var firstLine: Int
    var lineCount: Int
    /// Ends with a line feed, which is added to a last line that has none.
    var bytes: ByteBuffer

    var lastLine: Int { firstLine + lineCount - 1 }

    /// Drops the lines up to `line`, which must be one of its own or the one before.
    func dropping(through line: Int) -> LineBlock {
        var rest = bytes
        for _ in firstLine..<(line + 1) {
            guard let end = rest.readableBytesView.firstIndex(of: UInt8(ascii: "\n")) else { break }
            rest.moveReaderIndex(to: end + 1)
        }
        return LineBlock(firstLine: line + 1, lineCount: lastLine - line, bytes: rest)
    }
}

/// Cuts the bytes of a file into blocks of whole lines.
struct LineBlocks {
    /// A longer line cannot be one installation; the server would refuse it anyway.
    static let maximumLineBytes = 1 << 20

    private let read: @Sendable () throws -> [UInt8]
    private var nextLine = 1
    private var rest: [UInt8] = []
    private var isAtEnd = false

    /// - Parameter read: The next bytes; none at the end. May block.
    init(read: @escaping @Sendable () throws -> [UInt8]) { self.read = read }

    /// - Returns: nil at the end.
    mutating func next() throws -> LineBlock? {
        while true {
            if let end = rest.lastIndex(of: UInt8(ascii: "\n")) {
                let bytes = rest[...end]
                rest = Array(rest[(end + 1)...])
                return block(bytes)
            }
            guard !isAtEnd else { return nil }
            guard rest.count <= Self.maximumLineBytes else {
                throw CommandFailure("line \(nextLine) is longer than \(Self.maximumLineBytes) bytes")
            }
            let more = try read()
            isAtEnd = more.isEmpty
            rest += isAtEnd && !rest.isEmpty ? [UInt8(ascii: "\n")] : more
        }
    }

    private mutating func block(_ bytes: ArraySlice<UInt8>) -> LineBlock {
        let count = bytes.count { $0 == UInt8(ascii: "\n") }
        defer { nextLine += count }
        return LineBlock(firstLine: nextLine, lineCount: count, bytes: ByteBuffer(bytes: bytes))
    }
}
