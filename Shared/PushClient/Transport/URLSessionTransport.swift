// On Linux URLSession is a library of its own, which needs libcurl: a program that links PushClient there brings its own transport.
#if !os(Linux)
    public import Foundation

    /// Sends requests with `URLSession`, relative to a base address. It follows no redirect.
    public struct URLSessionTransport: PushTransport {
        private let base: URL
        private let session: URLSession

        /// - Parameter base: The URL of the token service or of the app's backend, for example `https://push.example.com`.
        public init(base: URL, session: URLSession = .shared) {
            self.base = base
            self.session = session
        }

        /// See ``PushTransport/send(_:)``. Throws `URLError` if no HTTP answer came.
        public func send(_ request: PushRequest) async throws -> PushResponse {
            let root = base.absoluteString
            guard let url = URL(string: (root.hasSuffix("/") ? String(root.dropLast()) : root) + request.path) else {
                throw URLError(.badURL)
            }
            var wanted = URLRequest(url: url)
            wanted.httpMethod = request.method
            wanted.httpBody = request.body
            for (name, value) in request.headers { wanted.setValue(value, forHTTPHeaderField: name) }
            let (body, answer) = try await session.data(for: wanted, delegate: NoRedirects())
            guard let http = answer as? HTTPURLResponse else { throw URLError(.badServerResponse) }
            var headers: [String: String] = [:]
            for (name, value) in http.allHeaderFields {
                if let name = name as? String, let value = value as? String { headers[name] = value }
            }
            return PushResponse(status: http.statusCode, headers: headers, body: body)
        }
    }

    /// Answers with the redirect itself: the sign-in page of a backend would answer 200, and a sign-out would count as done.
    private final class NoRedirects: NSObject, URLSessionTaskDelegate {
        func urlSession(
            _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
            newRequest request: URLRequest
        ) async -> URLRequest? { nil }
    }
#endif
