internal import CNGHTTP2
import Glibc

/// Owns an `nghttp2_session`: the common part of client and server. Immutable, so that nghttp2's callbacks may use it while a call is under
/// way.
struct WireSession: ~Copyable {
    let handle: OpaquePointer
    private let memory: SessionMemory

    /// - Parameters:
    ///   - make: calls `nghttp2_session_…_new3` with the options.
    init(
        memoryLimit: Int = .max, options set: (OpaquePointer) -> Void,
        _ make: (_ session: inout OpaquePointer?, _ options: OpaquePointer, _ memory: inout nghttp2_mem) -> Int32
    ) throws(HTTP2Error) {
        var options: OpaquePointer?
        try check(Int(nghttp2_option_new(&options)), "nghttp2_option_new")
        guard let options else { throw .library(Int(NGHTTP2_ERR_NOMEM.rawValue), "nghttp2_option_new") }
        defer { nghttp2_option_del(options) }
        // Closed streams would be kept only for RFC 7540's priorities, which are not used.
        nghttp2_option_set_no_closed_streams(options, 1)
        set(options)
        var session: OpaquePointer?
        let memory = SessionMemory(limit: memoryLimit)
        var functions = memory.functions
        try check(Int(make(&session, options, &functions)), "nghttp2_session_new")
        guard let session else { throw .library(Int(NGHTTP2_ERR_NOMEM.rawValue), "nghttp2_session_new") }
        handle = session
        self.memory = memory
    }

    // Calls no stream-close callbacks (docs/apns.md, Streams), so the owner may already be half gone. The memory's count goes after it.
    deinit { nghttp2_session_del(handle) }

    func receive(_ bytes: Span<UInt8>) throws(HTTP2Error) {
        let result = bytes.withUnsafeBufferPointer { nghttp2_session_mem_recv(handle, $0.baseAddress, $0.count) }
        try check(result, "nghttp2_session_mem_recv")
    }

    /// One frame, valid until the next call; empty when there is none.
    func nextOutput() throws(HTTP2Error) -> UnsafeBufferPointer<UInt8> {
        var bytes: UnsafePointer<UInt8>?
        let count = try check(nghttp2_session_mem_send(handle, &bytes), "nghttp2_session_mem_send")
        return UnsafeBufferPointer(start: bytes, count: count)
    }

    func submitSettings(_ entries: [nghttp2_settings_entry]) throws(HTTP2Error) {
        try check(
            Int(nghttp2_submit_settings(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), entries, entries.count)), "nghttp2_submit_settings")
    }

    func reset(_ stream: Int32, _ code: HTTP2ErrorCode) {
        // Fails only for stream 0 and for want of memory.
        _ = nghttp2_submit_rst_stream(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code.rawValue)
    }

    func ping(_ number: UInt64) {
        let bytes = (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(56 - 8 * $0)) }
        _ = nghttp2_submit_ping(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), bytes)
    }

    func goAway(lastStream: Int32, _ code: HTTP2ErrorCode, debug: [UInt8]) throws(HTTP2Error) {
        let flags = UInt8(NGHTTP2_FLAG_NONE.rawValue)
        try check(Int(nghttp2_submit_goaway(handle, flags, lastStream, code.rawValue, debug, debug.count)), "nghttp2_submit_goaway")
    }

    var wantsRead: Bool { nghttp2_session_want_read(handle) != 0 }
    var wantsWrite: Bool { nghttp2_session_want_write(handle) != 0 }

    /// The slot that belongs to an open stream.
    @inline(__always)
    func slot(of stream: Int32) -> Int? {
        HTTP2.slot(userData: nghttp2_session_get_stream_user_data(handle, stream))
    }
}

extension nghttp2_settings_entry {
    init(_ id: nghttp2_settings_id, _ value: Int) {
        self.init(settings_id: Int32(id.rawValue), value: UInt32(clamping: value))
    }
}

/// Eight bytes of a PING as a number, most significant byte first.
func pingNumber(_ frame: nghttp2_ping) -> UInt64 {
    withUnsafeBytes(of: frame.opaque_data) { $0.reduce(0) { $0 << 8 | UInt64($1) } }
}

/// The open streams of one session, in slots that are used again. nghttp2 carries the slot's number as a stream's user data, so that a
/// callback finds its stream without a search. A released slot's buffers keep their capacity.
struct StreamTable<Stream> {
    private var slots: [Stream] = []
    private var free: [Int] = []
    private let make: () -> Stream

    init(_ make: @escaping () -> Stream) { self.make = make }

    /// Every slot, also those that are released.
    var indices: Range<Int> { slots.indices }

    subscript(slot: Int) -> Stream {
        _read { yield slots[slot] }
        _modify { yield &slots[slot] }
    }

    /// - Returns: a free slot, new or as its last user left it.
    mutating func allocate() -> Int {
        if let slot = free.popLast() { return slot }
        slots.append(make())
        return slots.count - 1
    }

    mutating func release(_ slot: Int) { free.append(slot) }
}

/// A slot's number as nghttp2's user data: one more, so that slot 0 is not a null pointer.
@inline(__always)
func userData(slot: Int) -> UnsafeMutableRawPointer? {
    UnsafeMutableRawPointer(bitPattern: slot + 1)
}

@inline(__always)
func slot(userData: UnsafeMutableRawPointer?) -> Int? {
    guard let userData else { return nil }
    return Int(bitPattern: userData) - 1
}

/// Gives nghttp2 memory for one session (`nghttp2_mem`) up to a limit: beyond it, every allocation fails. One thread, like the session.
struct SessionMemory: ~Copyable {
    private typealias Left = UnsafeMutablePointer<Int>

    /// Bytes that may still be taken.
    private let left: Left

    init(limit: Int) {
        left = .allocate(capacity: 1)
        left.initialize(to: limit)
    }

    /// Comes after `nghttp2_session_del`, which frees all of it.
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
