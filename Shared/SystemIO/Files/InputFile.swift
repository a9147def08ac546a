import Glibc

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
