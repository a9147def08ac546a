import Foundation

/// What the system accepts as an attachment, and how large (Apple, "UNNotificationAttachment").
public enum AttachmentKind: Sendable, Hashable {
    case audio, image, movie

    /// In bytes.
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
