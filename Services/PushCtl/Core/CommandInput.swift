import SystemIO

/// A file that a command reads, or standard input if it is `-`.
struct CommandInput {
    private static let pieceBytes = 1 << 16

    private let file: SystemIO.InputFile
    private let name: String

    /// - Throws: ``CommandFailure``
    init(_ path: String) throws {
        name = path == "-" ? "standard input" : "the file \(path)"
        do {
            file = path == "-" ? .standardInput : try SystemIO.InputFile(path: path)
            // A folder can be opened. Reading no bytes fails already, before a server is called.
            var none: [UInt8] = []
            _ = try file.read(0, into: &none)
        } catch {
            throw CommandFailure("\(name) cannot be read: \(error.reason)")
        }
    }

    /// - Returns: The next bytes; none at the end.
    /// - Throws: ``CommandFailure``
    func next() throws -> [UInt8] {
        var bytes: [UInt8] = []
        do { _ = try file.read(Self.pieceBytes, into: &bytes) } catch { throw CommandFailure("\(name) cannot be read: \(error.reason)") }
        return bytes
    }

    /// A file as a whole.
    static func read(_ path: String) throws -> [UInt8] {
        let file = try CommandInput(path)
        var bytes: [UInt8] = []
        while true {
            let piece = try file.next()
            if piece.isEmpty { return bytes }
            bytes += piece
        }
    }
}

extension [UInt8] {
    /// Editors of Windows write the mark (EF BB BF) before a text in UTF-8. In a text that is no JSON it says nothing.
    var withoutByteOrderMark: [UInt8] { starts(with: [0xef, 0xbb, 0xbf]) ? Array(dropFirst(3)) : self }
}
