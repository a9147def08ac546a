import HTTPTypes
import Observability
import TokenServiceApps
import TokenServiceKit

/// The description as one page for people: nothing from outside, light and dark, narrow and wide. The only script is the search.
enum DocumentationPage {
    static let html: HTML = """
        <!doctype html>
        <html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark"><title>token-service API</title><style>\(style)</style></head>
        <body><a class="skip" href="#content">Skip to the content</a>
        <nav aria-label="Operations"><a class="brand" href="#content">token-service</a>
        <input id="search" type="search" placeholder="Search (/)" aria-label="Search operations, schemas and problems" hidden="">
        <p id="found" class="quiet" role="status"></p>
        \(OpenAPIDocument.resources.map { menu($0.name, $0.operations.map(link)) })
        \(menu("Reference", [
            "<a href=\"#schemas\">Schemas</a>", "<a href=\"#problems\">Problems</a>", "<a href=\"/openapi.json\">openapi.json</a>", "<a href=\"/console\">Console</a>",
        ]))</nav>
        <main id="content"><h1>token-service API</h1><p class="quiet">Version \(BuildVersion.current.number)</p>
        <p>\(words: OpenAPIDocument.introduction)</p>
        <p>\(words: "Send a key as `Authorization: Bearer psh_…`. No scope includes another; a key is bound to one app or to none.")</p>
        \(OpenAPIDocument.resources.map(section))
        <section id="schemas"><h2>Schemas</h2>\(OpenAPIDocument.schemas.sorted { $0.key < $1.key }.map(article))</section>
        <section id="problems"><h2>Problems</h2><p>\(words: "Every `code` that a problem document can have.")</p>
        \(problems(ProblemCode.allCases) { "<code id=\"problem-\($0.rawValue)\">\($0.rawValue)</code>" })</section>
        </main><script>\(script)</script></body></html>
        """

    private static func menu(_ name: String, _ links: [HTML]) -> HTML { "<details open=\"\"><summary>\(name)</summary>\(links)</details>" }

    private static func link(_ operation: Operation) -> HTML {
        "<a href=\"#\(operation.id)\">\(method(operation))\(words: operation.summary)</a>"
    }

    private static func method(_ operation: Operation) -> HTML {
        let word = operation.route.method.rawValue
        return "<span class=\"method \(word.lowercased())\">\(word)</span>"
    }

    private static func section(_ resource: Resource) -> HTML {
        """
        <section id="\(resource.anchor)"><h2>\(resource.name)</h2><p>\(words: resource.summary)</p>
        \(resource.operations.map(article))</section>
        """
    }

    // MARK: Operations

    private static func article(_ operation: Operation) -> HTML {
        let parameters = operation.pathParameters + operation.parameters
        return """
            <article id="\(operation.id)"><h3><a href="#\(operation.id)">\(words: operation.summary)</a></h3>
            <p class="route">\(method(operation))\(.code(operation.route.path))</p>
            <p>\(words: operation.details)</p><p class="scope">\(words: operation.scopeSentence)</p>
            <pre>\(curl(operation))</pre>
            \(titled("Parameters", .table(["Name", "In", "Type", "Meaning"], parameters.map(row))))
            \(operation.request.flatMap { titled($0.isRequired ? "Request" : "Request (the body may be left out)", body($0)) })
            \(operation.answers.map(answer))
            \(titled("Errors", problems(operation.problems) { "<a href=\"#problem-\($0.rawValue)\">\(.code($0.rawValue))</a>" }))</article>
            """
    }

    private static func titled(_ title: HTML, _ content: HTML?) -> HTML? { content.map { "<h4>\(title)</h4>\($0)" } }

    private static func row(_ parameter: Parameter) -> [HTML] {
        [
            name(parameter.name, parameter.isRequired ? "required" : nil), "\(parameter.place.rawValue)", type(parameter.schema),
            "\(words: parameter.description)",
        ]
    }

    static func name(_ name: String, _ note: String?) -> HTML {
        "\(.code(name))\(note.map { "<span class=\"required\">\($0)</span>" as HTML })"
    }

    private static func answer(_ answer: Answer) -> HTML {
        let headers = answer.headers.map { header -> [HTML] in
            [name(header.name, header.isRequired ? "always" : nil), type(header.schema), "\(words: header.description)"]
        }
        return """
            <h4><span class="status">\(answer.status)</span>\(words: answer.description)</h4>
            \(HTML.table(["Header", "Type", "Meaning"], headers))\(answer.body.map(body))
            """
    }

    private static func body(_ body: OperationBody) -> HTML {
        let types = body.mediaTypes.joined(separator: " or ") + (body.description.map { ": \($0)" } ?? "")
        guard case .reference(let name, let schema) = body.schema.kind else { return "<p class=\"quiet\">\(words: types)</p>" }
        return """
            <p class="quiet">\(words: types) · <a href="#schema-\(name)">\(name)</a></p>
            <details><summary>\(body.isLines ? "Fields of a line" : "Fields")</summary>\(fields(of: schema))</details>
            \(example(of: schema, onOneLine: body.isLines))
            """
    }

    private static func problems(_ codes: [ProblemCode], _ name: (ProblemCode) -> HTML) -> HTML? {
        .table(
            ["Status", "Code", "When"],
            codes.map { code in
                let isRetryable: HTML? = code.kind.isRetryable ? "<span class=\"retry\">retryable</span>" : nil
                return [
                    "<span class=\"status bad\">\(code.kind.status.code)</span>", "\(name(code))\(isRetryable)", "\(words: code.kind.when)",
                ]
            })
    }
}
