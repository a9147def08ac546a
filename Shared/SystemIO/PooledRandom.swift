import Glibc
import Synchronization

/// The kernel's random numbers, fetched many at a time: ids and traces take several for each request, and the standard library's generator
/// calls the kernel for each. For names that must not collide; secrets come from OpenSSL.
package struct PooledRandom: RandomNumberGenerator, Sendable {
    /// As many numbers as getentropy(3) gives at once: 256 bytes.
    private static let size = 32
    private static let pool = Mutex<[UInt64]>([])

    package init() {}

    /// Safe from any thread: no number is given twice.
    package func next() -> UInt64 {
        Self.pool.withLock { pool in
            if let number = pool.popLast() { return number }
            pool = Self.fetched()
            return pool.popLast() ?? .random(in: .min ... .max)
        }
    }

    /// Empty if the kernel gives none, which does not happen for so few bytes once it has started.
    private static func fetched() -> [UInt64] {
        [UInt64](unsafeUninitializedCapacity: size) { buffer, count in
            count = getentropy(buffer.baseAddress, size * MemoryLayout<UInt64>.size) == 0 ? size : 0
        }
    }
}
