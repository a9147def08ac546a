internal import CNGHTTP2
import Glibc

/// nghttp2's memory for one session (`nghttp2_mem`): blocks that are freed wait for the next stream instead of going back to malloc, which
/// is about a twelfth of a request's cost otherwise. One thread, like the session. Holds what the session held at its peak, until its end.
struct MemoryPool: ~Copyable {
    /// Before every block; a multiple of sixteen, so that blocks are aligned as malloc's are. Written once: a block stays in its class.
    private struct Header {
        /// 0: too large for the pool, malloc's own.
        var sizeClass: Int
        var size: Int
    }

    /// Classes 1 to 32 hold blocks of up to 64, 128, … 2048 bytes; a free block begins with the next one's address. Entry 0 chains the slabs.
    /// The entry after the classes is no address, but how many bytes may still be asked of malloc.
    private typealias Lists = UnsafeMutablePointer<UnsafeMutableRawPointer?>

    private static let classes = 32
    private static let step = 64
    private static let slabBytes = 16_384

    private let lists: Lists

    /// - Parameter limit: bytes to take from malloc at most; beyond, every allocation fails.
    init(limit: Int = .max) {
        lists = .allocate(capacity: Self.classes + 2)
        lists.initialize(repeating: nil, count: Self.classes + 2)
        lists[Self.classes + 1] = UnsafeMutableRawPointer(bitPattern: limit)
    }

    /// After `nghttp2_session_del`: every block of the pool is gone with its slab.
    deinit {
        var slab = lists[0]
        while let current = slab {
            slab = current.load(as: UnsafeMutableRawPointer?.self)
            free(current)
        }
        lists.deallocate()
    }

    /// What `nghttp2_session_…_new3` takes; it copies this.
    var functions: nghttp2_mem {
        nghttp2_mem(
            mem_user_data: UnsafeMutableRawPointer(lists),
            malloc: { MemoryPool.allocate($0, $1) },
            free: { MemoryPool.release($0, $1) },
            calloc: { MemoryPool.allocateZeroed($0, $1, $2) },
            realloc: { MemoryPool.reallocate($0, $1, $2) })
    }

    func allocate(_ size: Int) -> UnsafeMutableRawPointer? { Self.allocate(size, lists) }
    func allocateZeroed(_ count: Int, _ size: Int) -> UnsafeMutableRawPointer? { Self.allocateZeroed(count, size, lists) }
    func release(_ block: UnsafeMutableRawPointer?) { Self.release(block, lists) }
    func reallocate(_ block: UnsafeMutableRawPointer?, _ size: Int) -> UnsafeMutableRawPointer? { Self.reallocate(block, size, lists) }
}

extension MemoryPool {
    /// Nil when memory has run out.
    private static func allocate(_ size: Int, _ owner: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        // A negative size is a huge one here, and sizes of nothing are malloc's as well.
        let sizeClass = (UInt(bitPattern: size) &+ UInt(step - 1)) / UInt(step)
        guard let owner else { return nil }
        let lists = owner.assumingMemoryBound(to: UnsafeMutableRawPointer?.self)
        guard sizeClass &- 1 < UInt(classes) else { return allocateLarge(size, lists) }
        guard let block = lists[Int(sizeClass)] ?? refill(lists, Int(sizeClass)) else { return nil }
        lists[Int(sizeClass)] = block.load(as: UnsafeMutableRawPointer?.self)
        return block
    }

    @inline(never)
    private static func allocateLarge(_ size: Int, _ lists: Lists) -> UnsafeMutableRawPointer? {
        let (total, overflow) = size.addingReportingOverflow(MemoryLayout<Header>.size)
        guard size >= 0, !overflow, let start = takeFromMalloc(total, lists) else { return nil }
        start.storeBytes(of: Header(sizeClass: 0, size: size), as: Header.self)
        return start + MemoryLayout<Header>.size
    }

    private static func allocateZeroed(_ count: Int, _ size: Int, _ owner: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        let (bytes, overflow) = count.multipliedReportingOverflow(by: size)
        guard !overflow, let block = allocate(bytes, owner) else { return nil }
        return memset(block, 0, bytes)
    }

    private static func release(_ block: UnsafeMutableRawPointer?, _ owner: UnsafeMutableRawPointer?) {
        guard let block else { return }
        let start = block - MemoryLayout<Header>.size
        let sizeClass = start.load(as: Header.self).sizeClass
        guard let owner else { return }
        let lists = owner.assumingMemoryBound(to: UnsafeMutableRawPointer?.self)
        guard sizeClass > 0 else {
            lists[classes + 1] = UnsafeMutableRawPointer(
                bitPattern: left(lists) + start.load(as: Header.self).size + MemoryLayout<Header>.size)
            return free(start)
        }
        block.storeBytes(of: lists[sizeClass], as: UnsafeMutableRawPointer?.self)
        lists[sizeClass] = block
    }

    private static func reallocate(
        _ block: UnsafeMutableRawPointer?, _ size: Int, _ owner: UnsafeMutableRawPointer?
    ) -> UnsafeMutableRawPointer? {
        guard let block else { return allocate(size, owner) }
        let old = (block - MemoryLayout<Header>.size).load(as: Header.self)
        if old.sizeClass > 0, size <= old.size { return block }
        guard let larger = allocate(size, owner) else { return nil }
        memcpy(larger, block, min(old.size, size))
        release(block, owner)
        return larger
    }

    private static func left(_ lists: Lists) -> Int { Int(bitPattern: lists[classes + 1]) }

    private static func takeFromMalloc(_ bytes: Int, _ lists: Lists) -> UnsafeMutableRawPointer? {
        guard bytes <= left(lists), let start = malloc(bytes) else { return nil }
        lists[classes + 1] = UnsafeMutableRawPointer(bitPattern: left(lists) - bytes)
        return start
    }

    /// Cuts a new slab into blocks of one class, chained; the slab's first sixteen bytes chain the slabs.
    private static func refill(_ lists: Lists, _ sizeClass: Int) -> UnsafeMutableRawPointer? {
        guard let slab = takeFromMalloc(slabBytes, lists) else { return nil }
        slab.storeBytes(of: lists[0], as: UnsafeMutableRawPointer?.self)
        lists[0] = slab
        let stride = MemoryLayout<Header>.size + sizeClass * step
        var first: UnsafeMutableRawPointer?
        var offset = MemoryLayout<Header>.size
        while offset + stride <= slabBytes {
            (slab + offset).storeBytes(of: Header(sizeClass: sizeClass, size: sizeClass * step), as: Header.self)
            let block = slab + offset + MemoryLayout<Header>.size
            block.storeBytes(of: first, as: UnsafeMutableRawPointer?.self)
            first = block
            offset += stride
        }
        return first
    }
}
