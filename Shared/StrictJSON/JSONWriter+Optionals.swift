/// Leaves out fields whose value is nil.
extension JSONWriter {
    package mutating func field(_ name: String, _ value: String?) {
        if let value { field(name, value) }
    }

    package mutating func field(_ name: String, _ value: Int64?) {
        if let value { field(name, value) }
    }

    package mutating func field(_ name: String, _ value: Int?) {
        if let value { field(name, Int64(value)) }
    }

    package mutating func field(_ name: String, _ value: (some FixedWidthInteger & SignedInteger)?) {
        if let value { field(name, Int64(value)) }
    }

    package mutating func field(_ name: String, _ value: Bool?) {
        if let value { field(name, value) }
    }

    package mutating func field(_ name: String, _ value: Double?) {
        if let value { field(name, value) }
    }
}
