import FoundationEssentials
import HTTPTypes
import Hummingbird
import Observability
import OpenSSL
import StrictJSON
import TokenServiceApps
import TokenServiceKit
import TokenServiceSending

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
            "<a href=\"#schemas\">Schemas</a>", "<a href=\"#problems\">Problems</a>", "<a href=\"/openapi.json\">openapi.json</a>",
            "<a href=\"/console\">Console</a>",
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

extension DocumentationPage {
    static func article(_ name: String, _ schema: JSONSchema) -> HTML {
        "<article id=\"schema-\(name)\"><h3>\(name)</h3>\(fields(of: schema))\(example(of: schema, onOneLine: false))</article>"
    }

    /// The fields of an object, objects within it included; anything else by its type.
    static func fields(of schema: JSONSchema) -> HTML {
        let description = schema.description.map { "<p>\(words: $0)</p>" as HTML }
        let content: HTML? =
            switch schema.kind {
            case .object(let fields, _) where !fields.isEmpty: .table(["Field", "Type", "Meaning"], rows(fields, prefix: ""))
            case .oneOf(let options):
                "\(options.enumerated().map { "<p class=\"quiet\">\($0 == 0 ? "Either" : "or")</p>\(fields(of: $1))" as HTML })"
            default: "<p>\(type(schema))</p>"
            }
        return "\(description)\(content)"
    }

    private static func rows(_ fields: [JSONSchema.Field], prefix: String) -> [[HTML]] {
        fields.flatMap { field -> [[HTML]] in
            let standard = field.schema.standard.map { " Default \(.code($0.json))." as HTML }
            let row: [HTML] = [
                name(prefix + field.name, field.isRequired ? "required" : nil), type(field.schema),
                "\(words: field.schema.description ?? "")\(standard)",
            ]
            return [row] + inner(field.schema, "\(prefix)\(field.name)")
        }
    }

    private static func inner(_ schema: JSONSchema, _ place: String) -> [[HTML]] {
        switch schema.kind {
        case .object(let fields, _): rows(fields, prefix: place + ".")
        case .array(let element, _, _): inner(element, place + "[]")
        case .oneOf(let options): options.flatMap { inner($0, place) }
        default: []
        }
    }

    static func type(_ schema: JSONSchema) -> HTML {
        let nullable = schema.isNullable ? " or null" : ""
        return switch schema.kind {
        case .anything: "any value\(nullable)"
        case .string(let text):
            "\(text.format ?? "string")\(text.pattern.map(pattern))\(text.maximum.map { ", at most \($0)" } ?? "")\(nullable)"
        case .integer(let minimum?, let maximum?): "integer \(minimum) to \(maximum)\(nullable)"
        case .integer(let minimum?, nil): "integer from \(minimum)\(nullable)"
        case .integer: "integer\(nullable)"
        case .number: "number\(nullable)"
        case .boolean: "boolean\(nullable)"
        case .words(let words): "\(choices(words))\(nullable)"
        case .numbers(let numbers): "\(choices(numbers.map(String.init)))\(nullable)"
        case .array(let element, _, let maximum):
            "list of \(maximum.map { "at most \($0): " } ?? "")\(type(element))\(schema.hasUniqueItems ? ", none twice" : "")\(nullable)"
        case .object: "object\(nullable)"
        case .dictionary(let element): "object; each value: \(type(element))\(nullable)"
        case .reference(let name, _): "<a href=\"#schema-\(name)\">\(name)</a>\(nullable)"
        case .oneOf(let options): "one of \(options.count) forms\(nullable)"
        }
    }

    private static func pattern(_ pattern: String) -> HTML {
        pattern == JSONSchema.withoutControls ? " without control characters" : "<code class=\"pattern\">\(pattern)</code>"
    }

    private static func choices(_ words: [String]) -> [HTML] {
        words.enumerated().map { index, word in "\(index > 0 ? ", " : "")\(.code(word))" }
    }

    static func example(of schema: JSONSchema, onOneLine: Bool) -> HTML {
        "<details><summary>Example</summary><pre>\(onOneLine ? schema.example.json : schema.example.indented())</pre></details>"
    }
}

extension DocumentationPage {
    /// The page's only script; the Content-Security-Policy names its digest. It hides what does not hold every word that was typed.
    static let script: HTML = """
        const search = document.getElementById('search'), found = document.getElementById('found');
        const articles = [...document.querySelectorAll('main article')].map(part => [part, part.textContent.toLowerCase()]);
        search.hidden = false;
        search.addEventListener('input', () => {
          const words = search.value.toLowerCase().split(' ').filter(word => word);
          let count = 0;
          for (const [part, text] of articles) {
            part.hidden = !words.every(word => text.includes(word));
            if (!part.hidden) count++;
            const link = document.querySelector("nav a[href='#" + CSS.escape(part.id) + "']");
            if (link) link.hidden = part.hidden;
          }
          found.textContent = words.length ? count + ' found' : '';
        });
        addEventListener('keydown', event => {
          if (event.key === '/' && event.target.tagName !== 'INPUT') { event.preventDefault(); search.focus(); }
        });
        """
}

extension DocumentationPage {
    /// The page's only style; the Content-Security-Policy names its digest.
    static let style: HTML = """
        :root{color-scheme:light dark;--ground:#fff;--panel:#f6f7f9;--text:#1d2330;--quiet:#5c6575;--line:#dde1e8;--link:#1c5fc4;
        --get:#1b7f4b;--post:#1c5fc4;--put:#8a5a00;--patch:#7a3fb0;--delete:#b3261e}
        @media (prefers-color-scheme:dark){:root{--ground:#14171c;--panel:#1c2027;--text:#e4e7ec;--quiet:#9aa4b2;--line:#313742;
        --link:#7db0ff;--get:#5fcf93;--post:#7db0ff;--put:#e0b15a;--patch:#c79bf2;--delete:#ff8a80}}
        *{box-sizing:border-box}
        html{scroll-behavior:smooth;scroll-padding-top:1rem}
        @media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
        body{margin:0;background:var(--ground);color:var(--text);font:16px/1.55 system-ui,sans-serif;display:grid;
        grid-template-columns:19rem minmax(0,1fr)}
        nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1rem;background:var(--panel);border-right:1px solid var(--line);
        font-size:.875rem}
        nav a{display:block;padding:.2rem .4rem;border-radius:.3rem;color:var(--text);text-decoration:none}
        nav a:hover,nav a:focus-visible{background:var(--line)}
        nav a[hidden],article[hidden]{display:none}
        nav input{width:100%;padding:.4rem;border:1px solid var(--line);border-radius:.3rem;background:var(--ground);color:var(--text);
        font:inherit}
        nav .brand{font-weight:700;font-size:1rem;margin-bottom:.5rem}
        nav summary{font-weight:600;padding:.45rem .4rem .15rem;cursor:pointer}
        main{padding:1.5rem 2.5rem 6rem;max-width:64rem}
        .skip{position:absolute;left:-99rem}
        .skip:focus{left:1rem;top:1rem;background:var(--ground);padding:.5rem;z-index:1}
        a{color:var(--link)}
        h1{margin:.2rem 0;font-size:1.9rem}
        h2{margin:3rem 0 .3rem;padding-bottom:.3rem;border-bottom:1px solid var(--line);font-size:1.4rem}
        h3{margin:0 0 .4rem;font-size:1.1rem}
        h3 a{color:inherit;text-decoration:none}
        h4{margin:1.3rem 0 .4rem;font-size:.95rem}
        article{margin:1.5rem 0;padding:1.2rem 1.4rem;border:1px solid var(--line);border-radius:.6rem}
        article:target{border-color:var(--link);box-shadow:0 0 0 1px var(--link)}
        p{margin:.4rem 0}
        code,pre{font-family:ui-monospace,monospace;font-size:.86em}
        p code,td code{overflow-wrap:anywhere}
        pre{margin:.4rem 0;padding:.8rem 1rem;overflow:auto;background:var(--panel);border:1px solid var(--line);border-radius:.4rem}
        details summary{cursor:pointer;color:var(--link)}
        nav details summary{color:var(--text)}
        main details{margin:.4rem 0}
        .quiet,.scope{color:var(--quiet);font-size:.9rem}
        .route{font-size:1rem;overflow-wrap:anywhere}
        .method{display:inline-block;min-width:3.4rem;margin-right:.4rem;font:700 .72rem ui-monospace,monospace;color:var(--quiet)}
        .get{color:var(--get)}.post{color:var(--post)}.put{color:var(--put)}.patch{color:var(--patch)}.delete{color:var(--delete)}
        .status{display:inline-block;margin-right:.5rem;font:700 .85rem ui-monospace,monospace;color:var(--get)}
        .bad{color:var(--delete)}
        .required,.retry{margin-left:.4rem;font-size:.75rem;color:var(--put)}
        .pattern{margin-left:.4rem;color:var(--quiet)}
        .table{overflow-x:auto}
        table{width:100%;border-collapse:collapse;font-size:.9rem}
        th,td{padding:.35rem .6rem .35rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
        th{font-size:.78rem;color:var(--quiet);font-weight:600}
        @media (max-width:56rem){body{display:block}nav{position:static;height:auto;max-height:45vh;border-right:0;
        border-bottom:1px solid var(--line)}main{padding:1rem 1rem 4rem}article{padding:1rem}table{min-width:32rem}}
        @media print{nav{display:none}body{display:block}}
        """
}

/// `/openapi.json` and `/docs`: the API's description, open to every client that reaches the port. The service makes the content once.
struct DocumentationController: Sendable {
    private static let description = StaticContent(text: OpenAPIDocument.text, type: "application/json", policy: "default-src 'none'")
    private static let page = StaticContent(
        text: DocumentationPage.html.text, type: "text/html; charset=utf-8",
        policy: """
            default-src 'none'; style-src '\(sourceHash(DocumentationPage.style.text))'; \
            script-src '\(sourceHash(DocumentationPage.script.text))'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
            """)

    func bind(to router: APIRouter) {
        router.open(.description) { request, _ in Self.description.response(to: request) }
        router.open(.descriptionPage) { request, _ in Self.page.response(to: request) }
    }

    /// The hash by which a Content-Security-Policy allows an inline style or script.
    private static func sourceHash(_ text: String) -> String {
        "sha256-" + Data(Digest.sha256(Array(text.utf8))).base64EncodedString()
    }
}

/// Content that the service makes or reads once, with its entity tag: a client loads it again only if it changed.
struct StaticContent: Sendable {
    private let bytes: [UInt8]
    private let headers: HTTPFields
    private let tag: String

    /// - Parameter policy: The answer's Content-Security-Policy.
    init(_ bytes: [UInt8], type: String, policy: String) {
        self.bytes = bytes
        tag = "\"" + Base64URL.encode(Digest.sha256(bytes).prefix(16)) + "\""
        var headers: HTTPFields = [
            .contentType: type, .eTag: tag, .cacheControl: "no-cache", .contentSecurityPolicy: policy, .xContentTypeOptions: "nosniff",
        ]
        headers["Referrer-Policy"] = "no-referrer"
        self.headers = headers
    }

    init(text: String, type: String, policy: String) { self.init(Array(text.utf8), type: type, policy: policy) }

    func response(to request: Request) -> Response {
        if EntityTags(.ifNoneMatch, of: request.headers)?.nameWeakly(tag) == true {
            return Response(status: .notModified, headers: headers)
        }
        return Response(status: .ok, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
    }
}
