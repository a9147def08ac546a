import Glibc

/// A file that is read whole: a key, a certificate, a passphrase, or a file that names them.
package struct WholeFile: Sendable {
    /// Why a file was not read, in words that follow its name: "there is no such file".
    package struct Fault: Error, Equatable, Sendable, CustomStringConvertible {
        package let description: String
    }

    package let bytes: [UInt8]
    /// The permission bits, if others than the owner may use the file; nil if they may not.
    package let openMode: UInt32?

    /// Reads the file that the path leads to. Links are followed.
    package init(path: String, maximumBytes: Int) throws(Fault) {
        openMode = try Self.check(path)
        do throws(SystemError) {
            let file = try InputFile(path: path)
            var bytes: [UInt8] = []
            while bytes.count <= maximumBytes, try file.read(min(65_536, maximumBytes + 1 - bytes.count), into: &bytes) > 0 {}
            self.bytes = bytes
        } catch {
            throw Fault(error, path)
        }
        guard bytes.count <= maximumBytes else { throw Fault(description: "it has more than \(maximumBytes) bytes") }
    }

    /// Whether this process may read the file, without reading it.
    /// - Returns: The file's mode, as ``openMode``.
    @discardableResult
    package static func check(_ path: String) throws(Fault) -> UInt32? {
        var status = stat()
        guard stat(path, &status) == 0 else { throw Fault(SystemError("stat"), path) }
        guard status.st_mode & S_IFMT != S_IFDIR else { throw Fault(description: "it is a folder") }
        guard access(path, R_OK) == 0 else { throw Fault(SystemError("access"), path) }
        return openMode(status)
    }

    /// Group and others, any of read, write, execute. The process's own group may read: orchestrators give secrets to it (`fsGroup`).
    private static func openMode(_ status: stat) -> UInt32? {
        let isOwnGroup = status.st_gid == getegid() && getegid() != 0
        let mode = status.st_mode & 0o7777
        return mode & (isOwnGroup ? 0o037 : 0o077) == 0 ? nil : mode
    }
}

extension WholeFile.Fault {
    fileprivate init(_ error: SystemError, _ path: String) {
        let isHome = path.hasPrefix("~") || path.contains("/~")
        description =
            switch error.code {
            case ENOENT where isHome: "there is no such file (a ~ stands for no folder here: write the whole path)"
            case ENOENT: "there is no such file"
            case EACCES: "this program is not permitted to read it"
            default: "it cannot be read: \(error.reason)"
            }
    }
}

/// A file that is read from its beginning to its end. One reader at a time.
package final class InputFile: Sendable {
    package static let standardInput = InputFile(descriptor: STDIN_FILENO)

    private let descriptor: Int32

    private init(descriptor: Int32) { self.descriptor = descriptor }

    package init(path: String) throws(SystemError) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        if descriptor < 0 { throw SystemError("open") }
    }

    deinit { _ = Glibc.close(descriptor) }

    /// Appends at most `count` bytes to `bytes`.
    /// - Returns: how many; 0 at the end of the file, which may grow later.
    package func read(_ count: Int, into bytes: inout [UInt8]) throws(SystemError) -> Int {
        var result = 0
        var code: Int32 = 0
        bytes.append(addingCapacity: count) { output in
            output.withUnsafeMutableBufferPointer { buffer, initialized in
                repeat {
                    result = Glibc.read(descriptor, buffer.baseAddress.map { $0 + initialized }, count)
                } while result < 0 && errno == EINTR
                code = errno
                initialized += max(0, result)
            }
        }
        if result < 0 { throw SystemError(operation: "read", code: code) }
        return result
    }
}
