import Glibc

/// A file that only grows: open(2) with O_APPEND, so that every write lands at its end. One writer at a time.
package final class AppendedFile: Sendable {
    private let descriptor: Int32

    /// Makes the file, readable by its owner and group; one of that name loses its content.
    /// - Throws: an error that ``SystemError/isHeldByAnother`` if another `AppendedFile`, of this process or any, has the file, which stays
    ///   as it is.
    package init(replacing path: String) throws(SystemError) {
        descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o640)
        if descriptor < 0 { throw SystemError("open") }
        var status = stat()
        if fstat(descriptor, &status) != 0 { throw SystemError("fstat") }
        if status.st_mode & S_IFMT == S_IFREG {
            if flock(descriptor, LOCK_EX | LOCK_NB) != 0 { throw SystemError("flock") }
            try truncate(to: 0)
        }
        _ = Self.survivesSizeLimit
    }

    /// A write beyond the process's limit (RLIMIT_FSIZE) is an error like a full disk, and not the end of the process.
    private static let survivesSizeLimit: Void = { _ = signal(SIGXFSZ, SIG_IGN) }()

    deinit { _ = Glibc.close(descriptor) }

    /// Writes all of it, with as many calls of write(2) as that takes. After an error a part may be in the file.
    /// - SeeAlso: ``size()`` for its length, and ``truncate(to:)`` to remove it.
    package func append(_ bytes: Span<UInt8>) throws(SystemError) {
        try bytes.withUnsafeBytes { (bytes) throws(SystemError) in
            var written = 0
            while written < bytes.count {
                let count = Glibc.write(descriptor, bytes.baseAddress.map { $0 + written }, bytes.count - written)
                if count >= 0 { written += count } else if errno != EINTR { throw SystemError("write") }
            }
        }
    }

    package func size() throws(SystemError) -> Int {
        var status = stat()
        if fstat(descriptor, &status) != 0 { throw SystemError("fstat") }
        return Int(status.st_size)
    }

    /// Removes the bytes behind this length.
    package func truncate(to size: Int) throws(SystemError) {
        if ftruncate(descriptor, size) != 0 { throw SystemError("ftruncate") }
    }
}
