import HTTPTypes
import Hummingbird
import OpenSSL
import TokenServiceKit
import TokenServiceSending

/// Content that the service makes or reads once, with its entity tag: a client loads it again only if it changed.
struct StaticContent: Sendable {
    private let bytes: [UInt8]
    private let headers: HTTPFields
    private let tag: String

    /// - Parameter policy: its Content-Security-Policy.
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
