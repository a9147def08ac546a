import Foundation
package import StrictJSON

/// What an OpenAPI document says of an API's calls.
package struct APIDescription: Sendable {
    package struct Operation: Sendable {
        package let id: String
        package let method: String
        /// With names in braces.
        package let path: String
        fileprivate let node: JSONValue

        fileprivate func parameters(_ place: String) -> [JSONValue] {
            (node["parameters"]?.arrayValue ?? []).filter { $0["in"]?.stringValue == place }
        }
    }

    package struct Answer: Sendable {
        package let status: Int
        /// The names of its own headers.
        package let headers: [String]
        /// Nil for none.
        package let type: String?
        package let schema: JSONValue?
    }

    private let root: JSONValue
    private let schemas: [String: JSONValue]
    package let operations: [Operation]

    package init(_ document: [UInt8]) throws {
        let root = try JSONValue.parse(document, maximumBytes: document.count)
        self.root = root
        schemas = Dictionary((root["components"]?["schemas"]?.objectValue ?? []).map { ($0.key, $0.value) }) { $1 }
        operations = (root["paths"]?.objectValue ?? []).flatMap { path, methods in
            (methods.objectValue ?? []).map { method, node in
                Operation(id: node["operationId"]?.stringValue ?? "?", method: method.uppercased(), path: path, node: node)
            }
        }
    }

    /// docs/reference/openapi.json, which deploy/scripts/make-reference.sh writes.
    package static func committed() throws -> APIDescription { try read.get() }
    private static let read = Result {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        return try APIDescription(Array(Data(contentsOf: tests.deletingLastPathComponent().appending(path: "docs/reference/openapi.json"))))
    }

    package func schema(_ name: String) -> JSONValue? { schemas[name] }

    /// The operation that a path leads to. Where two templates fit, the one with fewer variables is meant.
    package func operation(_ method: String, _ target: String) -> Operation? {
        let steps = target.prefix { $0 != "?" }.split(separator: "/", omittingEmptySubsequences: false)
        return operations.filter { operation in
            let template = operation.path.split(separator: "/", omittingEmptySubsequences: false)
            return operation.method == method && template.count == steps.count
                && zip(template, steps).allSatisfy { $0.hasPrefix("{") ? !$1.isEmpty : $0 == $1 }
        }.min { $0.parameters("path").count < $1.parameters("path").count }
    }

    /// The answers that are no problems.
    package func answers(of operation: Operation) -> [Answer] {
        (operation.node["responses"]?.objectValue ?? []).compactMap { status, answer in
            guard let status = Int(status), status < 300 else { return nil }
            let content = answer["content"]?.objectValue?.first
            return Answer(
                status: status, headers: (answer["headers"]?.objectValue ?? []).map(\.key), type: content?.key,
                schema: content?.value["schema"])
        }
    }

    /// The body that an operation takes as JSON.
    package func body(of operation: Operation) -> JSONValue? { operation.node["requestBody"]?["content"]?["application/json"]?["schema"] }

    // MARK: Schemas

    /// The schema that a `$ref` leads to.
    func resolved(_ schema: JSONValue) -> JSONValue {
        let prefix = "#/components/schemas/"
        guard let reference = schema["$ref"]?.stringValue, reference.hasPrefix(prefix),
            let schema = schemas[String(reference.dropFirst(prefix.count))]
        else { return schema }
        return resolved(schema)
    }

    /// The forms of a value with several, but for null; empty for a schema of one form.
    func options(of schema: JSONValue) -> [JSONValue] {
        let options = (schema["oneOf"]?.arrayValue ?? schema["anyOf"]?.arrayValue ?? []).filter { !$0.isNullType }
        guard options.count == 1 else { return options }
        // `anyOf` a schema or null.
        let forms = self.options(of: resolved(options[0]))
        return forms.isEmpty ? options : forms
    }

    /// Every field that a value may have, as the names that lead to it: `/to/user`. Items of arrays and members with free names add none.
    package func fields(of schema: JSONValue) -> Set<String> {
        var fields: Set<String> = []
        visit(schema, "") { field, _ in fields.insert(field) }
        return fields.subtracting([""])
    }

    /// How many words the field with the most of them may have.
    package func mostWords(of schema: JSONValue) -> Int {
        var most = 1
        visit(schema, "") { most = max(most, $1["enum"]?.arrayValue?.count ?? 0) }
        return most
    }

    private func visit(_ stated: JSONValue, _ field: String, _ body: (String, JSONValue) -> Void) {
        let schema = resolved(stated)
        body(field, schema)
        for inner in options(of: schema) + [schema["items"], schema["additionalProperties"]].compactMap(\.self) {
            visit(inner, field, body)
        }
        for (name, schema) in schema["properties"]?.objectValue ?? [] { visit(schema, "\(field)/\(name)", body) }
    }

    // MARK: Requests

    /// What of a request is not described, as sentences, and which of the body's described fields it has.
    package func check(_ request: ScriptedServer.Request) -> (faults: [String], fields: Set<String>) {
        guard let operation = operation(request.method, request.target) else { return (["no operation"], []) }
        let body = check(body: request, operation)
        return (
            pathFaults(request, operation) + queryFaults(request, operation) + headerFaults(request, operation) + body.faults, body.fields
        )
    }

    private func check(body request: ScriptedServer.Request, _ operation: Operation) -> (faults: [String], fields: Set<String>) {
        guard let described = operation.node["requestBody"] else { return (request.body.isEmpty ? [] : ["it takes no body"], []) }
        guard !request.body.isEmpty else { return (described["required"]?.boolValue == true ? ["the body is missing"] : [], []) }
        let type = request.headers["content-type"] ?? "none"
        guard let schema = described["content"]?[type]?["schema"] else { return (["it takes no body of the type \(type)"], []) }
        let lines = type.hasSuffix("ndjson") ? request.body.split(separator: "\n").map(String.init) : [request.body]
        return lines.reduce(into: ([], [])) { result, line in
            do {
                let check = SchemaCheck(try JSONValue.parse(Array(line.utf8)), against: schema, in: self)
                result.faults += check.faults
                result.fields.formUnion(check.fields)
            } catch { result.faults.append("the body is no JSON: \(error)") }
        }
    }

    private func pathFaults(_ request: ScriptedServer.Request, _ operation: Operation) -> [String] {
        let steps = request.target.prefix { $0 != "?" }.split(separator: "/", omittingEmptySubsequences: false)
        let template = operation.path.split(separator: "/", omittingEmptySubsequences: false)
        return operation.parameters("path").flatMap { parameter in
            let name = "{\(parameter["name"]?.stringValue ?? "?")}"
            return template.firstIndex { $0 == name }.map { faults(of: steps[$0], parameter) } ?? ["\(name) is not in the path"]
        }
    }

    private func queryFaults(_ request: ScriptedServer.Request, _ operation: Operation) -> [String] {
        let parameters = operation.parameters("query")
        let pairs = request.target.drop { $0 != "?" }.dropFirst().split(separator: "&").map { $0.split(separator: "=", maxSplits: 1) }
        let names = pairs.map { String($0[0]) }
        let stated = pairs.flatMap { pair in
            parameters.first { $0["name"]?.stringValue == String(pair[0]) }.map { faults(of: pair.count == 2 ? pair[1] : "", $0) }
                ?? ["it takes no parameter \(pair[0])"]
        }
        return stated
            + parameters.filter { $0["required"]?.boolValue == true }.compactMap { $0["name"]?.stringValue }.filter { !names.contains($0) }
            .map { "the parameter \($0) is missing" }
    }

    /// Those that every request may have need no description.
    private static let usualHeaders: Set = [
        "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "host", "transfer-encoding",
        "user-agent",
    ]

    private func headerFaults(_ request: ScriptedServer.Request, _ operation: Operation) -> [String] {
        request.headers.filter { !Self.usualHeaders.contains($0.key) }.flatMap { name, value in
            operation.parameters("header").first { $0["name"]?.stringValue?.lowercased() == name }.map { faults(of: value[...], $0) }
                ?? ["it takes no header \(name)"]
        }
    }

    /// - Parameter text: As it stands in the request.
    private func faults(of text: Substring, _ parameter: JSONValue) -> [String] {
        guard let schema = parameter["schema"] else { return [] }
        var writer = JSONWriter()
        let plain = text.removingPercentEncoding ?? String(text)
        switch resolved(schema).type {
        case "integer": Int64(plain).map { writer.value($0) } ?? writer.value(plain)
        case "boolean": ["true": true, "false": false][plain].map { writer.value($0) } ?? writer.value(plain)
        default: writer.value(plain)
        }
        guard let value = try? JSONValue.parse(writer.bytes) else { return ["\(text) is no text"] }
        return SchemaCheck(value, against: schema, in: self).faults.map { "\(parameter["name"]?.stringValue ?? "?"): \($0)" }
    }
}
