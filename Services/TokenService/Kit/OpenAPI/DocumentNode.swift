package import StrictJSON

/// A value of the description: the common part of YAML and JSON, with fields in the order in which they were written.
package indirect enum DocumentNode: Sendable, Equatable {
    case null
    case boolean(Bool)
    case integer(Int64)
    case number(Double)
    case text(String)
    case list([DocumentNode])
    case map([DocumentField])

    /// A map without the fields whose value is nil.
    package static func map(_ fields: KeyValuePairs<String, DocumentNode?>) -> DocumentNode {
        .map(fields.compactMap { name, node in node.map { DocumentField(name, $0) } })
    }

    package static func texts(_ texts: [String]) -> DocumentNode { .list(texts.map(DocumentNode.text)) }

    package subscript(_ name: String) -> DocumentNode? {
        guard case .map(let fields) = self else { return nil }
        return fields.first { $0.name == name }?.node
    }
}

package struct DocumentField: Sendable, Equatable {
    package let name: String
    package let node: DocumentNode

    package init(_ name: String, _ node: DocumentNode) {
        self.name = name
        self.node = node
    }
}

extension DocumentNode: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    package init(stringLiteral text: String) { self = .text(text) }
    package init(integerLiteral integer: Int64) { self = .integer(integer) }
    package init(booleanLiteral boolean: Bool) { self = .boolean(boolean) }
}

extension JSONWriter {
    package mutating func value(_ node: DocumentNode) {
        switch node {
        case .null: null()
        case .boolean(let value): self.value(value)
        case .integer(let value): self.value(value)
        case .number(let value): self.value(value)
        case .text(let value): self.value(value)
        case .list(let elements):
            array { writer in
                for element in elements { writer.value(element) }
            }
        case .map(let fields):
            object { writer in
                for field in fields {
                    writer.name(field.name)
                    writer.value(field.node)
                }
            }
        }
    }
}

extension DocumentNode {
    /// Writes JSON that people read: a field per line.
    package func indented(_ margin: String = "") -> String {
        let inner = margin + "  "
        switch self {
        case .map(let fields) where !fields.isEmpty:
            let lines = fields.map { "\(inner)\(DocumentNode.text($0.name).json): \($0.node.indented(inner))" }
            return "{\n" + lines.joined(separator: ",\n") + "\n\(margin)}"
        case .list(let elements) where elements.contains(where: \.isContainer):
            return "[\n" + elements.map { inner + $0.indented(inner) }.joined(separator: ",\n") + "\n\(margin)]"
        default: return json
        }
    }

    /// The node as JSON on one line.
    package var json: String {
        var writer = JSONWriter()
        writer.value(self)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private var isContainer: Bool {
        switch self {
        case .map, .list: true
        default: false
        }
    }
}
