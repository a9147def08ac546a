internal import CNGHTTP2
import Glibc

/// Gives nghttp2 memory for one session (`nghttp2_mem`) up to a limit: beyond it, every allocation fails. One thread, like the session.
struct SessionMemory: ~Copyable {
    private typealias Left = UnsafeMutablePointer<Int>

    /// Bytes that may still be taken.
    private let left: Left

    init(limit: Int) {
        left = .allocate(capacity: 1)
        left.initialize(to: limit)
    }

    /// After `nghttp2_session_del`, which frees all of it.
    deinit { left.deallocate() }

    /// The argument of `nghttp2_session_…_new3`, which copies this.
    var functions: nghttp2_mem {
        nghttp2_mem(
            mem_user_data: left,
            malloc: { size, left in SessionMemory.counted(left, atMost: size) { malloc(size) } },
            free: { block, left in SessionMemory.release(block, left) },
            calloc: { count, size, left in
                let (bytes, overflow) = count.multipliedReportingOverflow(by: size)
                return overflow ? nil : SessionMemory.counted(left, atMost: bytes) { calloc(count, size) }
            },
            realloc: { block, size, left in
                let old = malloc_usable_size(block)
                return SessionMemory.counted(left, atMost: size - old, released: old) { realloc(block, size) }
            })
    }

    private static func counted(
        _ owner: UnsafeMutableRawPointer?, atMost size: Int, released: Int = 0, _ take: () -> UnsafeMutableRawPointer?
    ) -> UnsafeMutableRawPointer? {
        guard let left = owner?.assumingMemoryBound(to: Int.self), size <= left.pointee, let block = take() else { return nil }
        left.pointee += released - malloc_usable_size(block)
        return block
    }

    private static func release(_ block: UnsafeMutableRawPointer?, _ owner: UnsafeMutableRawPointer?) {
        owner?.assumingMemoryBound(to: Int.self).pointee += malloc_usable_size(block)
        free(block)
    }
}
