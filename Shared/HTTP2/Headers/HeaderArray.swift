internal import CNGHTTP2

/// The `nghttp2_nv` array of one submit, kept between submits. nghttp2 copies values, and names
/// that are not the program's own text, before the call returns.
final class HeaderArray {
    private var storage: UnsafeMutablePointer<nghttp2_nv>
    private var capacity = 32
    private static let keepsName = UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue)

    init() { storage = .allocate(capacity: capacity) }

    deinit { storage.deallocate() }

    /// Calls `body` with the array, its count, and a pointer to `source`, all valid only inside.
    func with<R>(
        _ block: borrowing HeaderBlock, _ source: UnsafePointer<nghttp2_data_provider>,
        _ body: (UnsafePointer<nghttp2_nv>, Int, UnsafePointer<nghttp2_data_provider>) -> R
    ) -> R {
        let count = block.count
        if count > capacity { grow(to: count) }
        return block.bytes.withUnsafeBufferPointer { bytes in
            // nghttp2's type wants mutable pointers, but it only reads. An empty block has no base and no fields either.
            if let base = bytes.baseAddress.map({ UnsafeMutablePointer(mutating: $0) }) {
                block.fields.withUnsafeBufferPointer { fields in
                    for index in 0..<count {
                        let field = fields[index]
                        if let name = field.fixedName {
                            // The program's text outlives every session.
                            storage[index] = nghttp2_nv(
                                name: UnsafeMutablePointer(mutating: name.utf8Start), value: base + field.value.lowerBound,
                                namelen: name.utf8CodeUnitCount, valuelen: field.value.count, flags: field.flags | Self.keepsName)
                        } else {
                            storage[index] = nghttp2_nv(
                                name: base + field.name.lowerBound, value: base + field.value.lowerBound, namelen: field.name.count,
                                valuelen: field.value.count, flags: field.flags)
                        }
                    }
                }
            }
            return body(storage, count, source)
        }
    }

    private func grow(to count: Int) {
        storage.deallocate()
        capacity = count * 2
        storage = .allocate(capacity: capacity)
    }
}
