internal import CNGHTTP2

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
