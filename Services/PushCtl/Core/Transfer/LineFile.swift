import Foundation
import Synchronization

/// A file that is written line by line, in larger pieces. Only its owner may read it: tokens are personal data.
final class LineFile: Sendable {
    private static let pieceBytes = 1 << 16

    private let handle: FileHandle
    private let buffer = Mutex<[UInt8]>([])

    static let standardOutput = LineFile(.standardOutput)
    static let standardError = LineFile(.standardError)

    private init(_ handle: FileHandle) { self.handle = handle }

    /// - Parameter appends: Keep what is there and go on after it.
    /// - Throws: ``CommandFailure``
    convenience init(path: String, appends: Bool = false) throws {
        if !appends || !FileManager.default.fileExists(atPath: path) {
            guard FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600]) else {
                throw CommandFailure("the file \(path) cannot be written")
            }
        }
        guard let handle = FileHandle(forWritingAtPath: path) else { throw CommandFailure("the file \(path) cannot be written") }
        try handle.seekToEnd()
        self.init(handle)
    }

    func append(line: ArraySlice<UInt8>) throws {
        try buffer.withLock { buffer in
            buffer += line
            buffer.append(UInt8(ascii: "\n"))
            guard buffer.count >= Self.pieceBytes else { return }
            try handle.write(contentsOf: Data(buffer))
            buffer.removeAll(keepingCapacity: true)
        }
    }

    func flush() throws {
        try buffer.withLock { buffer in
            try handle.write(contentsOf: Data(buffer))
            buffer.removeAll()
        }
    }
}
