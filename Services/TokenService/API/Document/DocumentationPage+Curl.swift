import HTTPTypes
import StrictJSON
import TokenServiceApps
import TokenServiceKit

extension DocumentationPage {
    /// A command to paste: the operation with the description's own examples.
    static func curl(_ operation: Operation) -> String {
        var parts = ["curl"]
        let method = operation.route.method.rawValue
        // curl makes POST of a body.
        if method != "GET", method != "POST" || operation.request == nil { parts.append("-X \(method)") }
        if !operation.isOpen { parts.append("-H 'Authorization: Bearer psh_…'") }
        if let body = operation.request, body.isRequired {
            parts.append("-H 'Content-Type: \(body.mediaTypes[0])'")
            let content = body.isLines ? "--data-binary @lines.ndjson" : "-d '\(body.schema.example.json.replacing("'", with: "'\\''"))'"
            parts.append(content)
        }
        parts.append("'https://push.example.com\(path(of: operation))'")
        return parts.joined(separator: " ")
    }

    private static func path(of operation: Operation) -> String {
        var path = operation.route.path
        for parameter in operation.pathParameters { path = path.replacing("{\(parameter.name)}", with: parameter.schema.example.plain) }
        let query = operation.parameters.filter { $0.place == .query && $0.isRequired }
        guard !query.isEmpty else { return path }
        return path + "?" + query.map { "\($0.name)=\($0.schema.example.plain)" }.joined(separator: "&")
    }
}

extension DocumentNode {
    /// A text without its quotes.
    fileprivate var plain: String { if case .text(let text) = self { text } else { json } }
}
