import HTTPTypes
import Observability

/// The description as one page for people: no scripts, nothing from outside, light and dark, narrow and wide.
enum DocumentationPage {
    static let html: String = {
        var page = HTMLWriter()
        page.raw("<!doctype html>")
        page.element("html", ["lang": "en"]) { html in
            html.element("head") { head in
                head.open("meta", ["charset": "utf-8"])
                head.open("meta", ["name": "viewport", "content": "width=device-width, initial-scale=1"])
                head.open("meta", ["name": "color-scheme", "content": "light dark"])
                head.element("title", "token-service API")
                head.element("style") { $0.raw(style) }
            }
            html.element("body") { body in
                body.element("a", ["class": "skip", "href": "#content"], "Skip to the content")
                body.element("nav", ["aria-label": "Operations"]) { sidebar(&$0) }
                body.element("main", ["id": "content"]) { main in
                    introduction(&main)
                    for resource in OpenAPIDocument.resources { section(resource, &main) }
                    schemas(&main)
                    problems(&main)
                }
            }
        }
        return page.text
    }()

    private static func sidebar(_ html: inout HTMLWriter) {
        html.element("a", ["class": "brand", "href": "#content"], "token-service")
        for resource in OpenAPIDocument.resources {
            html.element("details", ["open": ""]) { details in
                details.element("summary", resource.name)
                for operation in resource.operations {
                    details.element("a", ["href": "#\(operation.id)"]) { link in
                        method(operation, &link)
                        link.plain(operation.summary)
                    }
                }
            }
        }
        html.element("details", ["open": ""]) { details in
            details.element("summary", "Reference")
            details.element("a", ["href": "#schemas"], "Schemas")
            details.element("a", ["href": "#problems"], "Problems")
            details.element("a", ["href": "/openapi.yaml"], "openapi.yaml")
        }
    }

    private static func introduction(_ html: inout HTMLWriter) {
        html.element("h1", "token-service API")
        html.element("p", ["class": "quiet"], "Version \(BuildVersion.current.number)")
        html.element("p", OpenAPIDocument.introduction)
        html.element("p", "Send a key as `Authorization: Bearer psh_…`. No scope includes another; a key is bound to one app or to none.")
        html.element("pre") { $0.plain("curl -H 'Authorization: Bearer psh_…' https://push.example.com/v1/admin/apps") }
    }

    private static func section(_ resource: Resource, _ html: inout HTMLWriter) {
        html.element("section", ["id": resource.anchor]) { section in
            section.element("h2", resource.name)
            section.element("p", resource.summary)
            for operation in resource.operations { article(operation, &section) }
        }
    }

    static func method(_ operation: Operation, _ html: inout HTMLWriter) {
        let word = operation.route.method.rawValue
        html.element("span", ["class": "method \(word.lowercased())"], word)
    }

    private static func schemas(_ html: inout HTMLWriter) {
        html.element("section", ["id": "schemas"]) { section in
            section.element("h2", "Schemas")
            for (name, schema) in OpenAPIDocument.schemas.sorted(by: { $0.key < $1.key }) {
                section.element("article", ["id": "schema-\(name)"]) { article in
                    article.element("h3", name)
                    fields(of: schema, &article)
                    example(of: schema, &article)
                }
            }
        }
    }

    private static func problems(_ html: inout HTMLWriter) {
        html.element("section", ["id": "problems"]) { section in
            section.element("h2", "Problems")
            section.element("p", "Every `code` that a problem document can have.")
            problemTable(ProblemCode.allCases, isReference: true, &section)
        }
    }
}
