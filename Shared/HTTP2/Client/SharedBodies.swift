/// The bodies that open streams have to send, each kept once for all streams that it was submitted to one after another. Streams are
/// counted as plain numbers here: a reference of its own for each would cost more than copying a payload.
struct SharedBodies {
    private struct Entry {
        var bytes: [UInt8] = []
        /// Streams that have not sent all of it.
        var users = 0

        // Through spans: lending the array itself would retain it.

        /// Whether it is the same memory: while this holds it, no other array can lie there.
        @inline(__always)
        func isSame(_ other: [UInt8]) -> Bool {
            let base = other.span.withUnsafeBufferPointer { $0.baseAddress }
            return bytes.span.withUnsafeBufferPointer { $0.baseAddress } == base
        }

        @inline(__always)
        func copy(from offset: Int, _ count: Int, to buffer: UnsafeMutablePointer<UInt8>?) {
            bytes.span.withUnsafeBufferPointer { source in
                if let buffer, let base = source.baseAddress, count > 0 { buffer.update(from: base + offset, count: count) }
            }
        }
    }

    private var entries = StreamTable<Entry> { Entry() }
    /// The entry of the last submit; it may be free again.
    private var last = 0

    /// Makes room for the body of a stream that is about to be opened.
    /// - Returns: the place for `read` and `close`.
    mutating func open(_ bytes: [UInt8]) -> Int {
        if !entries.indices.contains(last) || entries[last].users == 0 || !entries[last].isSame(bytes) {
            last = entries.allocate()
            entries[last].bytes = bytes
        }
        entries[last].users += 1
        return last
    }

    /// Copies the next piece into nghttp2's frame. (nghttp2_data_source_read_callback)
    /// - Parameter left: how much of it this stream has not sent; lowered. At zero the caller has to close the stream here.
    /// - Returns: The length of the piece.
    @inline(__always)
    func read(_ place: Int, _ left: inout Int, into buffer: UnsafeMutablePointer<UInt8>?, _ room: Int) -> Int {
        let count = min(room, left)
        entries[place].copy(from: entries[place].bytes.count - left, count, to: buffer)
        left -= count
        return count
    }

    /// A stream no longer needs it.
    mutating func close(_ place: Int) {
        entries[place].users -= 1
        guard entries[place].users == 0 else { return }
        entries[place].bytes = []
        entries.release(place)
    }
}
