import FoundationEssentials
import HTTPTypes
import Hummingbird
import OpenSSL

/// `/openapi.json` and `/docs`: the API's description, open to every client that reaches the port. The service makes the content once.
struct DocumentationController: Sendable {
    private static let description = Page(text: OpenAPIDocument.text, type: "application/json", policy: "default-src 'none'")
    private static let page = Page(
        text: DocumentationPage.html.text, type: "text/html; charset=utf-8",
        policy: """
            default-src 'none'; style-src '\(sourceHash(DocumentationPage.style.text))'; base-uri 'none'; form-action 'none'; \
            frame-ancestors 'none'
            """)

    func bind(to router: APIRouter) {
        router.open(.description) { Self.description.response(to: $0) }
        router.open(.descriptionPage) { Self.page.response(to: $0) }
    }

    private struct Page: Sendable {
        let bytes: [UInt8]
        let headers: HTTPFields
        let tag: String

        init(text: String, type: String, policy: String) {
            bytes = Array(text.utf8)
            tag = "\"" + Base64URL.encode(Digest.sha256(bytes).prefix(16)) + "\""
            var headers: HTTPFields = [
                .contentType: type, .eTag: tag, .cacheControl: "no-cache", .contentSecurityPolicy: policy, .xContentTypeOptions: "nosniff",
            ]
            headers["Referrer-Policy"] = "no-referrer"
            self.headers = headers
        }

        func response(to request: Request) -> Response {
            if EntityTags(.ifNoneMatch, of: request.headers)?.nameWeakly(tag) == true {
                return Response(status: .notModified, headers: headers)
            }
            return Response(status: .ok, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
        }
    }

    /// The hash by which a Content-Security-Policy allows an inline style.
    private static func sourceHash(_ text: String) -> String {
        "sha256-" + Data(Digest.sha256(Array(text.utf8))).base64EncodedString()
    }
}
