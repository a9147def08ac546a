package import Hummingbird

extension Router {
    /// Answers every other method on the paths that are bound by now: OPTIONS with `Allow` (RFC 9110 section 9.3.7), the rest with 405 and
    /// `Allow` (section 15.5.6). Call it last.
    package func answerOtherMethods() {
        for (path, routes) in Dictionary(grouping: routes, by: { "\($0.path)" }) {
            var allowed = Set(routes.map(\.method)).union([.options])
            if allowed.contains(.get) { allowed.insert(.head) }
            let allow = allowed.map(\.rawValue).sorted().joined(separator: ", ")
            on(RouterPath(path), method: .options) { _, _ in Response(status: .noContent, headers: [.allow: allow]) }
            for method in HTTPRequest.Method.known.subtracting(allowed) {
                on(RouterPath(path), method: method) { _, _ -> Response in throw HTTPError(.methodNotAllowed, headers: [.allow: allow]) }
            }
        }
    }
}

extension HTTPRequest.Method {
    /// The methods of RFC 9110 section 9.3 and RFC 5789 (PATCH): the values of a metric's label. CONNECT names no path.
    private static let usual: Set<HTTPRequest.Method> = [.get, .head, .post, .put, .delete, .options, .trace, .patch]

    /// All methods that the parser (llhttp) lets pass with a path.
    fileprivate static let known = usual.union(
        [
            "ACL", "BIND", "CHECKOUT", "COPY", "LINK", "LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MOVE", "MSEARCH", "NOTIFY",
            "PROPFIND", "PROPPATCH", "PURGE", "QUERY", "REBIND", "REPORT", "SEARCH", "SOURCE", "SUBSCRIBE", "UNBIND", "UNLINK", "UNLOCK",
            "UNSUBSCRIBE",
        ].compactMap { HTTPRequest.Method($0) })

    /// From a closed set, for any method of a client.
    package var label: String { Self.usual.contains(self) ? rawValue : "other" }
}

extension Request {
    /// `OPTIONS *` asks the server and no resource (RFC 9110 section 9.3.7).
    package var asksTheServer: Bool { method == .options && head.path == "*" }
}
