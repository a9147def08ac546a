import HTTPTypes
import StrictJSON
import TestSupport
import Testing
import TokenServiceAPI
import TokenServiceApps
import TokenServiceKit

/// Holds one exchange with the service against the API's description: whatever any test is answered must be described.
struct Contract {
    let method: String
    /// With the query.
    let path: String
    let requestType: String?
    let requestBody: [UInt8]?
    let answer: APITestClient.Answer

    /// Fails the running test where something is not as described.
    func expectKept() {
        for fault in faults() { Issue.record("\(fault)") }
    }

    /// What is not as described, as sentences.
    func faults() -> [String] {
        guard let operation = Self.operation(method, path) else { return unknownRoute }
        let described: [String]
        if answer.isProblem {
            described = problemFaults(operation)
        } else if let answer = operation.answers.first(where: { $0.status == self.answer.status }) {
            described = answerFaults(answer)
        } else {
            described = ["\(answer.status) is no answer of it"]
        }
        return (described + requestFaults(operation)).map { "\(operation.id): \($0)" }
    }

    /// The operation that a path leads to. Where two templates fit, the one with fewer variables is meant.
    static func operation(_ method: String, _ path: String) -> Operation? {
        let steps = path.prefix { $0 != "?" }.split(separator: "/", omittingEmptySubsequences: false)
        let wanted = method == "HEAD" ? "GET" : method
        return OpenAPIDocument.operations.filter { operation in
            let template = operation.route.path.split(separator: "/", omittingEmptySubsequences: false)
            return operation.route.method.rawValue == wanted && template.count == steps.count
                && zip(template, steps).allSatisfy { $0.hasPrefix("{") ? !$1.isEmpty : $0 == $1 }
        }.min { $0.pathParameters.count < $1.pathParameters.count }
    }

    private var unknownRoute: [String] {
        let others = OpenAPIDocument.operations.map(\.route.method.rawValue).filter { Self.operation($0, path) != nil }
        let expected: (status: Int, code: String?) =
            if others.isEmpty { (404, ProblemCode.notFound.rawValue) } else if method == "OPTIONS" { (204, nil) } else {
                (405, ProblemCode.methodNotAllowed.rawValue)
            }
        let names = Set(others + ["OPTIONS"] + (others.contains("GET") ? ["HEAD"] : [])).sorted().joined(separator: ", ")
        guard answer.status == expected.status, answer.code == expected.code else {
            return ["\(method) \(path) is not described, but answers \(answer.status)"]
        }
        return others.isEmpty || answer.header("allow") == names ? [] : ["\(method) \(path): Allow is not \(names)"]
    }

    // MARK: Answers

    private func problemFaults(_ operation: Operation) -> [String] {
        guard let word = answer.code, let code = ProblemCode(rawValue: word) else {
            return ["the problem \(answer.code ?? "?") is not in the table"]
        }
        var faults: [String] = []
        if !operation.problems.contains(code) { faults.append("the problem \(word) is none of its") }
        if code.kind.status.code != answer.status { faults.append("\(word) is \(code.kind.status.code), but it answered \(answer.status)") }
        if code.kind.title != answer.json.text("title") { faults.append("the title of \(word) is another one") }
        if code.kind.isRetryable != answer.json["retryable"]?.boolValue { faults.append("\(word): retryable is another one") }
        if code.kind.retryAfterSeconds != nil, answer.header("retry-after") == nil { faults.append("\(word) without Retry-After") }
        if answer.header("content-type") != "application/problem+json" { faults.append("a problem of another type") }
        return faults + SchemaCheck.faults(of: answer.json, against: OpenAPIDocument.problem)
    }

    private func answerFaults(_ described: Answer) -> [String] {
        var faults = described.headers.filter { $0.isRequired && answer.header($0.name) == nil }.map { "no header \($0.name)" }
        guard method != "HEAD" else { return faults }
        guard let body = described.body else { return faults + (answer.bytes.isEmpty ? [] : ["a body with \(answer.status)"]) }
        let type = answer.header("content-type").map { String($0.prefix { $0 != ";" }) }
        if !body.mediaTypes.contains(where: { $0 == type }) {
            faults.append("the answer is \(type ?? "of no type"), not \(body.mediaTypes)")
        }
        return faults + bodyFaults(answer.bytes, body)
    }

    // MARK: Requests

    /// What the service took must be what it says that it takes.
    private func requestFaults(_ operation: Operation) -> [String] {
        guard (200..<300).contains(answer.status) else { return [] }
        var faults: [String] = []
        let query = path.split(separator: "?", maxSplits: 1).dropFirst().first ?? ""
        for name in query.split(separator: "&").map({ $0.prefix { $0 != "=" } })
        where !operation.parameters.contains(where: { $0.place == .query && $0.name == name }) {
            faults.append("the parameter \(name) is not described")
        }
        for parameter in operation.parameters where parameter.isRequired && !query.contains("\(parameter.name)=") {
            faults.append("it did without the parameter \(parameter.name)")
        }
        guard let requestBody, !requestBody.isEmpty else {
            return operation.request?.isRequired == true ? faults + ["it took no body"] : faults
        }
        // Content of a GET or DELETE means nothing (RFC 9110 sections 9.3.1 and 9.3.5) and is passed over.
        guard !["GET", "DELETE"].contains(method) else { return faults }
        guard let body = operation.request else { return faults + ["it took a body"] }
        if let requestType, !body.mediaTypes.contains(where: requestType.hasPrefix) { faults.append("it took \(requestType)") }
        // The answer names bad items.
        return body.isItemwise ? faults : faults + bodyFaults(requestBody, body).map { "request \($0)" }
    }

    private func bodyFaults(_ bytes: [UInt8], _ body: OperationBody) -> [String] {
        guard body.isLines || body.mediaTypes.contains(where: { $0.hasSuffix("json") }) else { return [] }
        let values = body.isLines ? bytes.split(separator: UInt8(ascii: "\n")).map(Array.init) : [bytes]
        return values.flatMap { bytes in
            do {
                return SchemaCheck.faults(of: try JSONValue.parse(bytes, maximumBytes: 1 << 26), against: body.schema)
            } catch {
                return ["no JSON: \(error)"]
            }
        }
    }
}

extension APITestClient.Answer {
    fileprivate var isProblem: Bool { header("content-type")?.hasPrefix("application/problem+json") == true }
}
