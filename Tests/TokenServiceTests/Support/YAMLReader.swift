import StrictJSON
import TokenService

/// Reads the part of YAML that the description uses: maps and lists in block style, everything else as JSON on its line.
struct YAMLReader {
    struct Fault: Error, CustomStringConvertible {
        let line: Int
        let description: String
    }

    private struct Line {
        let number: Int
        var indent: Int
        var content: Substring
    }

    private var lines: [Line]

    static func read(_ text: String) throws -> DocumentNode {
        var reader = YAMLReader(text)
        let node = try reader.block(0)
        if let rest = reader.lines.first { throw Fault(line: rest.number, description: "not indented like what stands before") }
        return node
    }

    private init(_ text: String) {
        lines = text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().compactMap { index, line in
            let content = line.drop { $0 == " " }
            return content.isEmpty ? nil : Line(number: index + 1, indent: line.count - content.count, content: content)
        }
        lines.reverse()
    }

    private mutating func block(_ indent: Int) throws -> DocumentNode {
        guard let first = lines.last, first.indent == indent else {
            throw Fault(line: lines.last?.number ?? 0, description: "expected a block indented by \(indent)")
        }
        return first.content.hasPrefix("-") ? try list(indent) : try map(indent)
    }

    private mutating func list(_ indent: Int) throws -> DocumentNode {
        var elements: [DocumentNode] = []
        while let line = lines.last, line.indent == indent, line.content.hasPrefix("-") {
            let content = line.content.dropFirst().drop { $0 == " " }
            if content.isEmpty {
                lines.removeLast()
                elements.append(try block(indent + 2))
            } else if Self.key(content) != nil {
                lines[lines.count - 1] = Line(number: line.number, indent: indent + 2, content: content)
                elements.append(try map(indent + 2))
            } else {
                lines.removeLast()
                elements.append(try Self.json(content, line))
            }
        }
        return .list(elements)
    }

    private mutating func map(_ indent: Int) throws -> DocumentNode {
        var fields: [(String, DocumentNode)] = []
        while let line = lines.last, line.indent == indent {
            guard let (key, rest) = Self.key(line.content) else { throw Fault(line: line.number, description: "expected a key") }
            if fields.contains(where: { $0.0 == key }) { throw Fault(line: line.number, description: "the key \(key) stands there twice") }
            lines.removeLast()
            fields.append((key, rest.isEmpty ? try block(indent + 2) : try Self.json(rest, line)))
        }
        return DocumentNode(fields: fields)
    }

    /// A key and what follows its colon.
    private static func key(_ content: Substring) -> (String, Substring)? {
        guard content.hasPrefix("\"") else {
            let name = content.prefix { $0.isLetter || $0 == "_" }
            let rest = content.dropFirst(name.count)
            return !name.isEmpty && rest.hasPrefix(":") ? (String(name), rest.dropFirst().drop { $0 == " " }) : nil
        }
        guard let end = content.dropFirst().firstIndex(of: "\"") else { return nil }
        let rest = content[content.index(after: end)...]
        return rest.hasPrefix(":") ? (String(content[content.startIndex..<end].dropFirst()), rest.dropFirst().drop { $0 == " " }) : nil
    }

    private static func json(_ text: Substring, _ line: Line) throws -> DocumentNode {
        do {
            return DocumentNode(try JSONValue.parse(Array(text.utf8)))
        } catch {
            throw Fault(line: line.number, description: "no JSON: \(error)")
        }
    }
}

extension DocumentNode {
    init(_ value: JSONValue) {
        switch value.kind {
        case .null: self = .null
        case .bool(let value): self = .boolean(value)
        case .integer(let value): self = .integer(value)
        case .number(let value): self = .number(value)
        case .string(let value): self = .text(value)
        case .array(let elements): self = .list(elements.map(DocumentNode.init))
        case .object(let fields): self = DocumentNode(fields: fields.map { ($0.key, DocumentNode($0.value)) })
        }
    }

    init(fields: [(String, DocumentNode)]) { self = .map(fields.map { DocumentField($0, $1) }) }

    var json: JSONValue {
        get throws {
            var writer = JSONWriter()
            writer.value(self)
            return try JSONValue.parse(writer.bytes)
        }
    }

    /// Every field of that name, however deep.
    func all(_ name: String) -> [DocumentNode] {
        switch self {
        case .map(let fields): fields.flatMap { ($0.name == name ? [$0.node] : []) + $0.node.all(name) }
        case .list(let elements): elements.flatMap { $0.all(name) }
        default: []
        }
    }

    /// What a reference within the document leads to.
    func find(_ reference: String) -> DocumentNode? {
        reference.dropFirst(2).split(separator: "/").reduce(DocumentNode?.some(self)) { $0?[String($1)] }
    }

    var text: String? {
        if case .text(let text) = self { text } else { nil }
    }
}
