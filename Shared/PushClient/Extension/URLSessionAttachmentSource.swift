// On Linux URLSession is a library of its own, which needs libcurl: a program that links PushClient there brings its own transport.
#if !os(Linux)
    public import Foundation

    /// Downloads attachments with `URLSession`, in parts, so that a large one does not fill the extension's small memory.
    public struct URLSessionAttachmentSource: AttachmentSource {
        private let session: URLSession

        /// - Parameter session: The session whose configuration sets the time-outs of a download.
        public init(session: URLSession = .shared) {
            self.session = session
        }

        /// See ``AttachmentSource/download(_:into:)``. Throws `URLError` if the answer is not 200 or has no `Content-Type`.
        public func download(_ url: URL, into file: AttachmentFile) async throws {
            let (bytes, answer) = try await session.bytes(from: url)
            defer { bytes.task.cancel() }
            guard let http = answer as? HTTPURLResponse, http.statusCode == 200, let type = http.value(forHTTPHeaderField: "Content-Type")
            else { throw URLError(.badServerResponse) }
            try file.begin(contentType: type, length: answer.expectedContentLength)
            var part = Data()
            for try await byte in bytes {
                part.append(byte)
                guard part.count == 1 << 16 else { continue }
                try file.append(part)
                part.removeAll(keepingCapacity: true)
            }
            try file.append(part)
        }
    }
#endif
