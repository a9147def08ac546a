import CRabbitMQ
import Glibc

/// Memory for the strings and tables of one call: an `amqp_pool_t`, emptied and used again, so that a publish allocates nothing. Its memory
/// is valid until ``recycle()``.
final class ScratchPool {
    private let pool: UnsafeMutablePointer<amqp_pool_t>

    init() {
        pool = .allocate(capacity: 1)
        pool.initialize(to: amqp_pool_t())
        init_amqp_pool(pool, 16_384)
    }

    deinit {
        empty_amqp_pool(pool)
        pool.deallocate()
    }

    func recycle() { recycle_amqp_pool(pool) }

    func bytes(_ text: String) -> amqp_bytes_t {
        var text = text
        return text.withUTF8 { copy(UnsafeRawBufferPointer($0)) }
    }

    func bytes(_ bytes: [UInt8]) -> amqp_bytes_t { bytes.withUnsafeBytes { copy($0) } }

    /// `entries` as an `amqp_table_t`. An integer is sent in 32 bits if it fits, else as RabbitMQ's signed 64-bit letter `l` (librabbitmq
    /// calls that letter unsigned; the bits are the same).
    func table(_ entries: [String: RabbitMQValue]) -> amqp_table_t {
        let table = space(for: entries.count)
        for (index, (name, value)) in entries.enumerated() {
            table.entries[index] = amqp_table_entry_t(key: bytes(name), value: field(value))
        }
        return table
    }

    func table(_ entries: [String: String]) -> amqp_table_t {
        if entries.isEmpty { return amqp_table_t() }
        let table = space(for: entries.count)
        for (index, (name, value)) in entries.enumerated() {
            table.entries[index] = amqp_table_entry_t(key: bytes(name), value: field(.string(value)))
        }
        return table
    }

    /// A table inside a table, for the login's capabilities.
    func table(_ entries: [String: String], capabilities: [String]) -> amqp_table_t {
        let table = space(for: entries.count + 1)
        for (index, (name, value)) in entries.enumerated() {
            table.entries[index] = amqp_table_entry_t(key: bytes(name), value: field(.string(value)))
        }
        var nested = amqp_field_value_t()
        nested.kind = UInt8(AMQP_FIELD_KIND_TABLE.rawValue)
        nested.value.table = self.table(Dictionary(uniqueKeysWithValues: capabilities.map { ($0, RabbitMQValue.boolean(true)) }))
        table.entries[entries.count] = amqp_table_entry_t(key: bytes("capabilities"), value: nested)
        return table
    }

    private func field(_ value: RabbitMQValue) -> amqp_field_value_t {
        var field = amqp_field_value_t()
        switch value {
        case .string(let text):
            field.kind = UInt8(AMQP_FIELD_KIND_UTF8.rawValue)
            field.value.bytes = bytes(text)
        case .integer(let number):
            if let short = Int32(exactly: number) {
                field.kind = UInt8(AMQP_FIELD_KIND_I32.rawValue)
                field.value.i32 = short
            } else {
                field.kind = UInt8(AMQP_FIELD_KIND_U64.rawValue)
                field.value.u64 = UInt64(bitPattern: number)
            }
        case .boolean(let truth):
            field.kind = UInt8(AMQP_FIELD_KIND_BOOLEAN.rawValue)
            field.value.boolean = truth ? 1 : 0
        case .double(let number):
            field.kind = UInt8(AMQP_FIELD_KIND_F64.rawValue)
            field.value.f64 = number
        case .other:
            field.kind = UInt8(AMQP_FIELD_KIND_VOID.rawValue)
        }
        return field
    }

    private func space(for count: Int) -> amqp_table_t {
        let memory = amqp_pool_alloc(pool, count * MemoryLayout<amqp_table_entry_t>.stride)
        return amqp_table_t(num_entries: Int32(count), entries: memory?.bindMemory(to: amqp_table_entry_t.self, capacity: count))
    }

    private func copy(_ source: UnsafeRawBufferPointer) -> amqp_bytes_t {
        guard let start = source.baseAddress, source.count > 0, let memory = amqp_pool_alloc(pool, source.count) else {
            return amqp_bytes_t()
        }
        memcpy(memory, start, source.count)
        return amqp_bytes_t(len: source.count, bytes: memory)
    }
}
