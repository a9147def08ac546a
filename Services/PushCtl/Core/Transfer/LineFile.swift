import Synchronization
import SystemIO

/// A file that is written line by line, in larger pieces. Only its owner may read it: tokens are personal data.
final class LineFile: Sendable {
    private static let pieceBytes = 1 << 16

    private let file: OutputFile
    private let name: String
    /// The name that the file gets when it is whole; nil if it is written in its place.
    private let path: String?
    private let buffer = Mutex<[UInt8]>([])

    static let standardOutput = LineFile(.standardOutput, name: StandardOutput.name, path: nil)
    static let standardError = LineFile(.standardError, name: "standard error", path: nil)

    private init(_ file: OutputFile, name: String, path: String?) {
        self.file = file
        self.name = name
        self.path = path
    }

    /// A regular file, or a new one, is written under another name and renamed by ``finish()``: a run that fails leaves the earlier file as
    /// it was. A link, a pipe or a device is written in its place.
    /// - Parameter continues: Goes on after the lines of an earlier run: in the file of that other name, or else in the file itself.
    /// - Throws: ``CommandFailure``
    convenience init(replacing path: String, continues: Bool = false) throws {
        let beside = Self.partialName(path)
        do {
            let kind = try OutputFile.kind(of: path)
            let isInPlace = try kind == .other || (continues && kind == .regularFile && OutputFile.kind(of: beside) == .nothing)
            let name = isInPlace ? path : beside
            self.init(
                try OutputFile(path: name, continues ? .appending : .replacing), name: "the file \(name)", path: isInPlace ? nil : path)
        } catch let error as SystemError {
            throw CommandFailure("the file \(path) cannot be written: \(error.reason)")
        }
    }

    /// Written in its place, so that another program can follow it.
    /// - Throws: ``CommandFailure``
    convenience init(inPlace path: String) throws {
        do { self.init(try OutputFile(path: path, .replacing), name: "the file \(path)", path: nil) } catch {
            throw CommandFailure("the file \(path) cannot be written: \(error.reason)")
        }
    }

    static func partialName(_ path: String) -> String { path + ".partial" }

    /// The file with the lines of a failed run; nil if that is the file itself.
    var leftover: String? { path.map(Self.partialName) }

    func append(line: ArraySlice<UInt8>) throws {
        try buffer.withLock { buffer in
            buffer += line
            buffer.append(UInt8(ascii: "\n"))
            if buffer.count >= Self.pieceBytes { try write(&buffer) }
        }
    }

    func flush() throws { try buffer.withLock { try write(&$0) } }

    /// Writes the rest, and gives the file its name.
    func finish() throws {
        try flush()
        guard let path else { return }
        do {
            try file.synchronize()
            try OutputFile.rename(Self.partialName(path), to: path)
        } catch {
            throw CommandFailure("\(name) cannot become \(path): \(error.reason)")
        }
    }

    /// After an error it does not try these bytes again: a part of them may be in the file.
    private func write(_ buffer: inout [UInt8]) throws {
        let bytes = buffer
        buffer.removeAll(keepingCapacity: true)
        do { try file.write(bytes.span) } catch { throw StandardOutput.failure(of: name, error) }
    }
}
