import Foundation

/// A file that a command reads as a whole, or standard input where it is `-`.
enum InputFile {
    /// - Throws: ``CommandFailure`` when it cannot be read.
    static func read(_ path: String) throws -> [UInt8] {
        if path == "-" { return [UInt8](FileHandle.standardInput.readDataToEndOfFile()) }
        guard let data = FileManager.default.contents(atPath: path) else { throw CommandFailure("the file \(path) cannot be read") }
        return [UInt8](data)
    }
}
