import ArgumentParser
import SystemIO

/// A command's output to the person or the program that ran it.
enum StandardOutput {
    static let name = "standard output"
    /// 128 and SIGPIPE, as a shell reports a program whose reader has gone.
    static let lostReader = ExitCode(141)

    /// Writes a line at once. Swift's own `print` does not report a lost line.
    /// - Throws: ``CommandFailure``; ``lostReader``.
    static func print(_ text: some CustomStringConvertible) throws {
        do { try OutputFile.standardOutput.write(Array("\(text)\n".utf8).span) } catch { throw failure(of: name, error) }
    }

    /// A reader of standard output that ends early, as `head` does, has read enough.
    static func failure(of name: String, _ error: SystemError) -> any Error {
        error.isBrokenPipe && name == Self.name ? lostReader : CommandFailure("\(name) cannot be written: \(error.reason)")
    }
}

enum StandardError {
    static func write(_ text: String) {
        // There is no other place to report to.
        do { try OutputFile.standardError.write(Array(text.utf8).span) } catch {}
    }
}
