import StrictJSON
import TokenServiceKit

extension DocumentNode {
    init(_ value: JSONValue) {
        switch value.kind {
        case .null: self = .null
        case .bool(let value): self = .boolean(value)
        case .integer(let value): self = .integer(value)
        case .number(let value): self = .number(value)
        case .string(let value): self = .text(value)
        case .array(let elements): self = .list(elements.map(DocumentNode.init))
        case .object(let fields): self = .map(fields.map { DocumentField($0.key, DocumentNode($0.value)) })
        }
    }

    var value: JSONValue { get throws { try JSONValue.parse(Array(json.utf8)) } }

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
