package import NIOCore

/// Cuts a stream of bytes into lines. A line that is too long is skipped, not kept: its rest counts as the same line.
package struct LineSplitter {
    package enum Line: Equatable, Sendable {
        /// Without its line feed.
        case text([UInt8])
        case tooLong
    }

    private let maximumBytes: Int
    private var partial: [UInt8] = []
    private var isOverlong = false

    package init(maximumBytes: Int) { self.maximumBytes = maximumBytes }

    /// The next line that ends within `buffer`, whose bytes up to there it takes. If none does, it takes all of them, and returns nil.
    package mutating func next(in buffer: inout ByteBuffer) -> Line? {
        let bytes = buffer.readableBytesView
        guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
            take(bytes)
            buffer.moveReaderIndex(forwardBy: bytes.count)
            return nil
        }
        take(bytes[..<end])
        buffer.moveReaderIndex(forwardBy: bytes.distance(from: bytes.startIndex, to: end) + 1)
        return finishedLine()
    }

    /// The last line, where the stream did not end with a line feed.
    package mutating func finish() -> Line? {
        guard isOverlong || !partial.isEmpty else { return nil }
        return finishedLine()
    }

    private mutating func take(_ bytes: ByteBufferView) {
        guard !isOverlong else { return }
        if partial.count + bytes.count > maximumBytes {
            isOverlong = true
            partial = []
        } else {
            partial.append(contentsOf: bytes)
        }
    }

    private mutating func finishedLine() -> Line {
        defer {
            partial = []
            isOverlong = false
        }
        return isOverlong ? .tooLong : .text(partial)
    }
}
