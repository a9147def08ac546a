import StrictJSON

/// Writes a description as YAML 1.2: maps and lists in block style, every text in double quotes.
///
/// A JSON string is a YAML double-quoted scalar (YAML 1.2.2 section 1.2 and 7.3.1), so nothing needs a rule of its own.
struct YAMLWriter {
    private(set) var bytes: [UInt8] = []

    static func text(_ node: DocumentNode) -> String {
        var writer = YAMLWriter()
        writer.block(node, indent: 0)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// The lines of a map or a list; a scalar on a line of its own.
    private mutating func block(_ node: DocumentNode, indent: Int) {
        switch node {
        case .map(let fields) where !fields.isEmpty:
            for field in fields {
                margin(indent)
                append(Self.key(field.name) + ":")
                member(field.node, indent: indent + 2)
            }
        case .list(let elements) where !elements.isEmpty:
            for element in elements {
                margin(indent)
                append("-")
                item(element, indent: indent + 2)
            }
        default: member(node, indent: indent)
        }
    }

    /// What follows a key's colon.
    private mutating func member(_ node: DocumentNode, indent: Int) {
        guard Self.isBlock(node) else { return scalar(node) }
        append("\n")
        block(node, indent: indent)
    }

    /// What follows a list's dash: a map begins on the same line.
    private mutating func item(_ node: DocumentNode, indent: Int) {
        guard case .map(let fields) = node, let first = fields.first else { return member(node, indent: indent) }
        append(" " + Self.key(first.name) + ":")
        member(first.node, indent: indent + 2)
        if fields.count > 1 { block(.map(Array(fields.dropFirst())), indent: indent) }
    }

    private mutating func scalar(_ node: DocumentNode) {
        var json = JSONWriter()
        json.value(node)
        append(" ")
        bytes.append(contentsOf: json.bytes)
        append("\n")
    }

    private mutating func margin(_ width: Int) { bytes.append(contentsOf: repeatElement(UInt8(ascii: " "), count: width)) }
    private mutating func append(_ text: String) { bytes.append(contentsOf: text.utf8) }

    /// Lists of plain values stay on their line.
    private static func isBlock(_ node: DocumentNode) -> Bool {
        switch node {
        case .map(let fields): !fields.isEmpty
        case .list(let elements): elements.contains(where: isContainer)
        default: false
        }
    }

    private static func isContainer(_ node: DocumentNode) -> Bool {
        switch node {
        case .map, .list: true
        default: false
        }
    }

    /// Quoted unless every YAML reader takes it for a text: letters alone, and none of YAML 1.1's words for true, false and null.
    private static func key(_ name: String) -> String {
        let words: Set<String> = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"]
        let isPlain = name.utf8.allSatisfy { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20) || byte == UInt8(ascii: "_")
        }
        if isPlain, !name.isEmpty, !words.contains(name.lowercased()) { return name }
        var json = JSONWriter()
        json.value(name)
        return String(decoding: json.bytes, as: UTF8.self)
    }
}
