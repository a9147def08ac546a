internal import CNGHTTP2

/// A body on its way out. It shares the caller's array: a payload sent to a thousand devices exists once.
struct OutgoingBody {
    var bytes: [UInt8] = []
    var offset = 0
    /// The most bytes one DATA frame carries.
    var frameLimit = Int.max

    /// Copies the next piece into nghttp2's frame. (nghttp2_data_source_read_callback)
    @inline(__always)
    mutating func read(into buffer: UnsafeMutablePointer<UInt8>?, _ room: Int, _ flags: UnsafeMutablePointer<UInt32>?) -> Int {
        let count = min(room, frameLimit, bytes.count - offset)
        // Through a span: lending the array itself would retain it.
        bytes.span.withUnsafeBufferPointer { source in
            if let buffer, let base = source.baseAddress, count > 0 { buffer.update(from: base + offset, count: count) }
        }
        offset += count
        if offset == bytes.count {
            flags?.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue)
            bytes = []
        }
        return count
    }
}
