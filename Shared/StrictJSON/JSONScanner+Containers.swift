extension JSONScanner {
    /// Takes `{` and goes one level down. Follow with ``nextName()`` until it returns nil.
    mutating func beginObject() throws(JSONError) {
        guard peek() == UInt8(ascii: "{") else { throw error("expected an object") }
        try descend()
    }

    /// Takes `[` and goes one level down. Follow with ``nextElement()`` until it returns false.
    package mutating func beginArray() throws(JSONError) {
        guard peek() == UInt8(ascii: "[") else { throw error("expected an array") }
        try descend()
    }

    private mutating func descend() throws(JSONError) {
        guard depth < maximumDepth else { throw error("nested deeper than \(maximumDepth) levels") }
        depth += 1
        position += 1
    }

    private mutating func ascend() {
        depth -= 1
        position += 1
    }

    /// The next field's name with its colon taken, or nil after the closing brace.
    mutating func nextName() throws(JSONError) -> ArraySlice<UInt8>? {
        guard let (range, hasEscapes) = try nextNameRange() else { return nil }
        return hasEscapes ? unescaped(range)[...] : source[range]
    }

    private mutating func nextNameRange() throws(JSONError) -> (range: Range<Int>, hasEscapes: Bool)? {
        guard try nextMember(closing: UInt8(ascii: "}")) else { return nil }
        guard peek() == UInt8(ascii: "\"") else { throw error("expected a name in quotes") }
        let name = try scanString()
        guard peek() == UInt8(ascii: ":") else { throw error("expected a colon after the name") }
        position += 1
        return name
    }

    /// Whether another element follows; false after the closing bracket.
    package mutating func nextElement() throws(JSONError) -> Bool {
        try nextMember(closing: UInt8(ascii: "]"))
    }

    /// Takes the comma between members or the closing byte. A member is never read while a comma is missing, because the byte before the
    /// first one is the opening byte itself.
    private mutating func nextMember(closing: UInt8) throws(JSONError) -> Bool {
        let isFirst = followsOpening(closing)
        guard let byte = peek() else { throw error("the text ends inside an array or object") }
        if byte == closing {
            ascend()
            return false
        }
        if isFirst { return true }
        guard byte == UInt8(ascii: ",") else { throw error("expected a comma or the end of the array or object") }
        position += 1
        guard peek() != closing else { throw error("a comma before the end") }
        return true
    }

    /// The opening bytes are two below the closing ones in ASCII, and no value ends with one, so the last byte taken decides.
    private func followsOpening(_ closing: UInt8) -> Bool {
        source[position - 1] == closing - 2
    }

    /// Begins an object whose names are known beforehand.
    package mutating func fields(_ names: JSONNames) throws(JSONError) -> JSONFields {
        try beginObject()
        return JSONFields(names: names)
    }

    /// The index in `fields.names` of the next field, whose value is to be read next; nil at the object's end.
    ///
    /// Passes over fields that are not in the list: a newer writer may have added them. A listed name that occurs twice is an error.
    package mutating func next(_ fields: inout JSONFields) throws(JSONError) -> Int? {
        while let name = try nextNameRange() {
            let known =
                name.hasEscapes ? fields.index(of: unescaped(name.range).span) : fields.index(of: source.span.extracting(name.range))
            guard let index = known else {
                try skipValue()
                continue
            }
            guard fields.isNew(index) else { throw error("the name before this place stands twice in its object") }
            return index
        }
        return nil
    }
}

/// The names of an object's fields in the order a writer writes them. At most 64.
package struct JSONNames: Sendable {
    /// All names, one after another.
    fileprivate let text: [UInt8]
    /// The end of each name in `text`.
    fileprivate let ends: [Int]

    package init(_ names: [String]) {
        precondition(names.count <= 64, "what was seen is kept in 64 bits")
        var text: [UInt8] = []
        ends = names.map { name in
            text.append(contentsOf: name.utf8)
            return text.count
        }
        self.text = text
    }

    fileprivate func holds(_ name: Span<UInt8>, at index: Int) -> Bool {
        let start = index == 0 ? 0 : ends[index - 1]
        guard ends[index] - start == name.count else { return false }
        let text = text.span
        for offset in 0..<name.count where text[start + offset] != name[offset] { return false }
        return true
    }
}

/// The place in one object while its fields are read.
package struct JSONFields {
    private let names: JSONNames
    /// The writer's order is the usual order: the likely next name is compared first.
    private var guess = 0
    private var seen: UInt64 = 0

    init(names: JSONNames) { self.names = names }

    mutating func index(of name: Span<UInt8>) -> Int? {
        let count = names.ends.count
        for step in 0..<count {
            let index = guess + step < count ? guess + step : guess + step - count
            if names.holds(name, at: index) {
                guess = index + 1 < count ? index + 1 : 0
                return index
            }
        }
        return nil
    }

    mutating func isNew(_ index: Int) -> Bool {
        let bit: UInt64 = 1 << UInt64(index)
        defer { seen |= bit }
        return seen & bit == 0
    }
}
