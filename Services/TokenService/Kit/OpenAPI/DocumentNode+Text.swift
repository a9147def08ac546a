import StrictJSON

extension DocumentNode {
    /// As JSON that people read: a field per line.
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

    /// As JSON on one line.
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
