public import Foundation

/// Fetches a file for a notification.
public protocol AttachmentSource: Sendable {
    /// - Returns: A file that the caller owns, and the `Content-Type` of the answer.
    func download(_ url: URL) async throws -> (file: URL, contentType: String)
}

/// Attaches the files that the payload names: `"push": {"attachments": ["https://…"]}`.
public struct AttachmentStep: NotificationStep {
    /// Why a file was not attached.
    public struct Refused: Error, CustomStringConvertible {
        /// For logs, in English: the last address with the reason, or that the payload names no attachment.
        public let description: String
    }

    private struct Payload: Decodable {
        struct Platform: Decodable { var attachments: [String]? }
        var push: Platform?
    }

    private let source: any AttachmentSource

    /// - Parameter source: Downloads the files; ``URLSessionAttachmentSource`` is the library's own.
    public init(source: any AttachmentSource) {
        self.source = source
    }

    /// Attaches the first file that it can fetch and that the system would show.
    public func improve(_ content: NotificationContent) async throws -> NotificationContent {
        var reason = Refused(description: "the payload names no attachment")
        for text in try content.notification.decode(Payload.self).push?.attachments ?? [] {
            do {
                var better = content
                better.attachments.append(NotificationContent.Attachment(identifier: text, file: try await fetch(text)))
                return better
            } catch {
                reason = Refused(description: "\(text): \(error)")
            }
        }
        throw reason
    }

    private func fetch(_ text: String) async throws -> URL {
        guard let url = URL(string: text), url.scheme == "https" else { throw Refused(description: "not an https address") }
        let (file, contentType) = try await source.download(url)
        do {
            guard let (kind, fileExtension) = AttachmentKind.of(contentType: contentType) else {
                throw Refused(description: "the system shows no \(contentType)")
            }
            let size = try FileManager.default.attributesOfItem(atPath: file.path)[.size] as? NSNumber
            guard let bytes = size?.int64Value, bytes <= kind.limit else {
                throw Refused(description: "more than the \(kind.limit) bytes that the system takes")
            }
            // The system tells a file's type by the end of its name.
            let named = file.deletingLastPathComponent().appendingPathComponent(UUID().uuidString).appendingPathExtension(fileExtension)
            try FileManager.default.moveItem(at: file, to: named)
            return named
        } catch {
            try? FileManager.default.removeItem(at: file)
            throw error
        }
    }
}
