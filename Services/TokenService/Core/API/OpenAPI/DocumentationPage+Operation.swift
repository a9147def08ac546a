extension DocumentationPage {
    static func article(_ operation: Operation, _ html: inout HTMLWriter) {
        html.element("article", ["id": operation.id]) { article in
            article.element("h3") { heading in
                heading.element("a", ["href": "#\(operation.id)"], operation.summary)
            }
            article.element("p", ["class": "route"]) { line in
                method(operation, &line)
                line.element("code", operation.route.path)
            }
            if !operation.details.isEmpty { article.element("p", operation.details) }
            article.element("p", ["class": "scope"], operation.scopeSentence)
            parameters(of: operation, &article)
            if let request = operation.request {
                article.element("h4", request.isRequired ? "Request" : "Request (the body may be left out)")
                body(request, &article)
            }
            for answer in operation.answers { self.answer(answer, &article) }
            guard !operation.problems.isEmpty else { return }
            article.element("h4", "Errors")
            problemTable(operation.problems, isReference: false, &article)
        }
    }

    private static func parameters(of operation: Operation, _ html: inout HTMLWriter) {
        let parameters = operation.pathParameters + operation.parameters
        guard !parameters.isEmpty else { return }
        html.element("h4", "Parameters")
        table(["Name", "In", "Type", "Meaning"], &html) { body in
            for parameter in parameters {
                body.element("tr") { row in
                    row.element("td") { cell in
                        cell.element("code", parameter.name)
                        if parameter.isRequired { cell.element("span", ["class": "required"], "required") }
                    }
                    row.element("td", parameter.place.rawValue)
                    row.element("td") { typeCell(parameter.schema, &$0) }
                    row.element("td", parameter.description)
                }
            }
        }
    }

    private static func answer(_ answer: Answer, _ html: inout HTMLWriter) {
        html.element("h4") { heading in
            heading.element("span", ["class": "status"], "\(answer.status)")
            heading.words(answer.description)
        }
        if !answer.headers.isEmpty {
            table(["Header", "Type", "Meaning"], &html) { body in
                for header in answer.headers {
                    body.element("tr") { row in
                        row.element("td") { cell in
                            cell.element("code", header.name)
                            if header.isRequired { cell.element("span", ["class": "required"], "always") }
                        }
                        row.element("td") { typeCell(header.schema, &$0) }
                        row.element("td", header.description)
                    }
                }
            }
        }
        if let body = answer.body { self.body(body, &html) }
    }

    private static func body(_ body: OperationBody, _ html: inout HTMLWriter) {
        html.element("p", ["class": "quiet"]) { line in
            line.plain(body.mediaTypes.joined(separator: " or "))
            if let description = body.description { line.words(": \(description)") }
            if case .reference(let name) = body.schema.kind {
                line.plain(" · ")
                line.element("a", ["href": "#schema-\(name)"], name)
            }
        }
        guard let schema = resolved(body.schema) else { return }
        html.element("details") { details in
            details.element("summary", body.isLines ? "Fields of a line" : "Fields")
            fields(of: schema, &details)
        }
        example(of: schema, onOneLine: body.isLines, &html)
    }

    /// What a reference stands for; nil where the body is plain text.
    private static func resolved(_ schema: JSONSchema) -> JSONSchema? {
        guard case .reference(let name) = schema.kind else { return nil }
        return OpenAPIDocument.schemas[name]
    }

    static func problemTable(_ codes: [ProblemCode], isReference: Bool, _ html: inout HTMLWriter) {
        table(["Status", "Code", "When"], &html) { body in
            for code in codes {
                body.element("tr", isReference ? ["id": "problem-\(code.rawValue)"] : [:]) { row in
                    row.element("td") { $0.element("span", ["class": "status bad"], "\(code.kind.status)") }
                    row.element("td") { cell in
                        if isReference {
                            cell.element("code", code.rawValue)
                        } else {
                            cell.element("a", ["href": "#problem-\(code.rawValue)"]) { $0.element("code", code.rawValue) }
                        }
                        if code.kind.isRetryable { cell.element("span", ["class": "retry"], "retryable") }
                    }
                    row.element("td", code.kind.when)
                }
            }
        }
    }

    /// A table that scrolls by itself where the screen is narrow.
    static func table(_ heads: [String], _ html: inout HTMLWriter, _ rows: (inout HTMLWriter) -> Void) {
        html.element("div", ["class": "table"]) { frame in
            frame.element("table") { table in
                table.element("thead") { head in
                    head.element("tr") { row in
                        for text in heads { row.element("th", ["scope": "col"], text) }
                    }
                }
                table.element("tbody", [:], rows)
            }
        }
    }
}
