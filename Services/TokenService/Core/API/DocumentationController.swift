import FoundationEssentials
import HTTPTypes
import Hummingbird
import OpenSSL

/// `/openapi.yaml` and `/docs`: the API's description, open to whoever may reach the port. The content is made once.
struct DocumentationController: Sendable {
    private static let description = Page(text: OpenAPIDocument.text, type: "application/yaml; charset=utf-8", policy: "default-src 'none'")
    private static let page = Page(
        text: DocumentationPage.html, type: "text/html; charset=utf-8",
        policy: """
            default-src 'none'; style-src '\(sourceHash(DocumentationPage.style))'; base-uri 'none'; form-action 'none'; \
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
            if let known = request.headers[.ifNoneMatch], isNamed(by: known) { return Response(status: .notModified, headers: headers) }
            return Response(status: .ok, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
        }

        /// The weak comparison that `If-None-Match` asks for (RFC 9110 section 13.1.2).
        private func isNamed(by list: String) -> Bool {
            list.split(separator: ",").map { $0.trimming(while: { $0 == " " || $0 == "\t" }) }.contains { known in
                known == "*" || known == tag || known == "W/" + tag
            }
        }
    }

    /// What a Content-Security-Policy allows an inline style by.
    private static func sourceHash(_ text: String) -> String {
        "sha256-" + Data(Digest.sha256(Array(text.utf8))).base64EncodedString()
    }
}

extension Substring {
    fileprivate func trimming(while isBlank: (Character) -> Bool) -> String {
        var text = drop(while: isBlank)
        while let last = text.last, isBlank(last) { text.removeLast() }
        return String(text)
    }
}
