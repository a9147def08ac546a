import Glibc

/// A file that is written from here on, or a pipe, terminal or device in a file's place. One writer at a time.
package final class OutputFile: Sendable {
    package enum Opening: Sendable {
        /// Makes the file. Fails if the name is taken, also by a link.
        case new
        /// Makes the file, or empties the file that is there. A link, a pipe and a device stay what they are.
        case replacing
        /// Makes the file, or goes on after its content.
        case appending
    }

    package static let standardOutput = OutputFile(descriptor: STDOUT_FILENO)
    package static let standardError = OutputFile(descriptor: STDERR_FILENO)

    private let descriptor: Int32

    private init(descriptor: Int32) {
        _ = Self.survivesLostReaders
        self.descriptor = descriptor
    }

    /// A file that this makes is readable and writable by its owner alone.
    package init(path: String, _ opening: Opening) throws(SystemError) {
        _ = Self.survivesLostReaders
        let flags =
            switch opening {
            case .new: O_EXCL
            case .replacing: O_TRUNC
            case .appending: O_APPEND
            }
        descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0o600)
        if descriptor < 0 { throw SystemError("open") }
    }

    deinit { _ = Glibc.close(descriptor) }

    /// A pipe without a reader is an error of write(2) (EPIPE), and not the end of the process.
    private static let survivesLostReaders: Void = { _ = signal(SIGPIPE, SIG_IGN) }()

    /// Writes all of it, with as many calls of write(2) as that takes. After an error a part may be written.
    package func write(_ bytes: Span<UInt8>) throws(SystemError) {
        try bytes.withUnsafeBytes { (bytes) throws(SystemError) in
            var written = 0
            while written < bytes.count {
                let count = Glibc.write(descriptor, bytes.baseAddress.map { $0 + written }, bytes.count - written)
                if count >= 0 { written += count } else if errno != EINTR { throw SystemError("write") }
            }
        }
    }

    /// Waits until the disk has it: fsync(2).
    package func synchronize() throws(SystemError) {
        if fsync(descriptor) != 0 { throw SystemError("fsync") }
    }

    /// The kind of file behind a name, without following a link: lstat(2).
    package enum Kind: Equatable, Sendable {
        case nothing, regularFile, other
    }

    package static func kind(of path: String) throws(SystemError) -> Kind {
        var status = stat()
        if lstat(path, &status) != 0 {
            if errno == ENOENT { return .nothing }
            throw SystemError("lstat")
        }
        return status.st_mode & S_IFMT == S_IFREG ? .regularFile : .other
    }

    /// Gives a file another name, in place of the file that has it: rename(2).
    package static func rename(_ path: String, to other: String) throws(SystemError) {
        if Glibc.rename(path, other) != 0 { throw SystemError("rename") }
    }
}
