// On Linux URLSession is a library of its own, which needs libcurl: a program that links PushClient there brings its own transport.
#if !os(Linux)
    public import Foundation

    /// Downloads attachments into a file with `URLSession`, so that a large one does not fill the extension's small memory.
    public struct URLSessionAttachmentSource: AttachmentSource {
        private let session: URLSession

        /// - Parameter session: Its configuration sets the time-outs of a download.
        public init(session: URLSession = .shared) {
            self.session = session
        }

        /// See ``AttachmentSource/download(_:)``. Throws `URLError` if the answer is not 200 or has no `Content-Type`.
        public func download(_ url: URL) async throws -> (file: URL, contentType: String) {
            let (file, answer) = try await session.download(from: url)
            guard let http = answer as? HTTPURLResponse, http.statusCode == 200, let type = http.value(forHTTPHeaderField: "Content-Type")
            else {
                try? FileManager.default.removeItem(at: file)
                throw URLError(.badServerResponse)
            }
            return (file, type)
        }
    }
#endif
