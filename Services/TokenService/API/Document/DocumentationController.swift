import FoundationEssentials
import HTTPTypes
import Hummingbird
import OpenSSL

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
