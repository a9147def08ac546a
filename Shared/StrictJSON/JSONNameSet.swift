/// The names found in one object. Small objects are compared one by one; a large one is hashed, so that many names do not take quadratic
/// time.
///
/// Names that Unicode calls canonically equivalent count as the same: readers differ about them, which attackers use.
struct JSONNameSet {
    private var few: [String] = []
    private var many: Set<String> = []

    /// - Returns: False when the name was there already.
    mutating func insert(_ name: ArraySlice<UInt8>) -> Bool { insert(String(decoding: name, as: UTF8.self)) }

    mutating func insert(_ name: String) -> Bool {
        if !many.isEmpty { return many.insert(name).inserted }
        guard !few.contains(name) else { return false }
        few.append(name)
        if few.count > 8 { many = Set(few) }
        return true
    }
}
