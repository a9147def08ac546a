public import Foundation

/// Fetches a file for a notification.
public protocol AttachmentSource: Sendable {
    /// Downloads into `file`: ``AttachmentFile/begin(contentType:length:)`` once the answer's headers are there, then
    /// ``AttachmentFile/append(_:)`` for each part, in order. When one of them throws, the source ends the download and throws that error.
    func download(_ url: URL, into file: AttachmentFile) async throws
}

/// Attaches the files that the payload names: `"push": {"attachments": ["https://…"]}`.
public struct AttachmentStep: NotificationStep {
    /// Why a file was not attached.
    public struct Refused: Error, CustomStringConvertible {
        /// What to log, in English: the last address with the reason, or that the payload names no attachment.
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
        let file = AttachmentFile()
        do {
            try await source.download(url, into: file)
            return try file.finish()
        } catch {
            file.discard()
            throw error
        }
    }
}

/// A file that takes no more than the system shows, so that a download ends as soon as it is too large.
///
/// Any thread may call it. Each function throws ``AttachmentStep/Refused``, or the error of the file system.
public final class AttachmentFile: Sendable {
    private struct Open {
        let url: URL
        let handle: FileHandle
        let limit: Int64
        var bytes: Int64 = 0
    }

    private let state = Guarded<Open?>(nil)

    init() {}

    /// Nil before ``begin(contentType:length:)``.
    var url: URL? { state.withLock { $0?.url } }

    /// Refuses what the system would not show.
    ///
    /// - Parameters:
    ///   - contentType: The answer's `Content-Type`.
    ///   - length: The body's length as the answer states it; negative if it does not (`URLResponse.expectedContentLength`).
    public func begin(contentType: String, length: Int64) throws {
        guard let (kind, fileExtension) = AttachmentKind.of(contentType: contentType) else {
            throw AttachmentStep.Refused(description: "the system shows no \(contentType)")
        }
        guard length <= kind.limit else { throw tooLarge(kind.limit) }
        // The system tells a file's type by the end of its name.
        let url = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).appendingPathExtension(fileExtension)
        try Data().write(to: url)
        let handle = try FileHandle(forWritingTo: url)
        state.withLock { $0 = Open(url: url, handle: handle, limit: kind.limit) }
    }

    /// Writes the next part of the body.
    public func append(_ part: Data) throws {
        try state.withLock { open in
            guard let (handle, limit) = open.map({ ($0.handle, $0.limit) }) else { return }
            open?.bytes += Int64(part.count)
            guard let bytes = open?.bytes, bytes <= limit else { throw tooLarge(limit) }
            try handle.write(contentsOf: part)
        }
    }

    /// The file belongs to the caller then.
    func finish() throws -> URL {
        let url = try state.withLock { open in
            defer { open = nil }
            try open?.handle.close()
            return open?.url
        }
        guard let url else { throw AttachmentStep.Refused(description: "no answer") }
        return url
    }

    func discard() {
        state.withLock { open in
            try? open?.handle.close()
            if let url = open?.url { try? FileManager.default.removeItem(at: url) }
            open = nil
        }
    }

    private func tooLarge(_ limit: Int64) -> AttachmentStep.Refused {
        AttachmentStep.Refused(description: "more than the \(limit) bytes that the system takes")
    }
}

/// What the system accepts as an attachment, and how large (Apple, "UNNotificationAttachment").
public enum AttachmentKind: Sendable, Hashable {
    case audio, image, movie

    /// The greatest size in bytes.
    public var limit: Int64 {
        switch self {
        case .audio: 5 << 20
        case .image: 10 << 20
        case .movie: 50 << 20
        }
    }

    /// - Parameter contentType: The answer's, with or without parameters. Nil for what the system does not show.
    public static func of(contentType: String) -> (kind: AttachmentKind, fileExtension: String)? {
        let name = contentType.split(separator: ";").first.map { $0.trimmingCharacters(in: .whitespaces).lowercased() }
        return switch name {
        case "image/jpeg": (.image, "jpg")
        case "image/png": (.image, "png")
        case "image/gif": (.image, "gif")
        case "audio/mpeg": (.audio, "mp3")
        case "audio/mp4", "audio/x-m4a": (.audio, "m4a")
        case "audio/wav", "audio/x-wav", "audio/vnd.wave": (.audio, "wav")
        case "audio/aiff", "audio/x-aiff": (.audio, "aiff")
        case "video/mpeg": (.movie, "mpg")
        case "video/mp4": (.movie, "mp4")
        case "video/x-msvideo", "video/avi": (.movie, "avi")
        default: nil
        }
    }
}
