import HTTPTypes
import Hummingbird
import NIOCore
import StrictJSON

/// A request's body: bounded, JSON, and kept as it came, because payloads are passed on verbatim.
struct RequestBody: Sendable {
    static let maximumBytes = 65_536

    let bytes: [UInt8]
    private let limit: Int

    /// Refuses by the stated length before reading, and while reading where none was stated.
    /// - Parameter maximumBytes: This route's limit.
    init(of request: Request, maximumBytes: Int = maximumBytes) async throws {
        limit = maximumBytes
        try Self.expectPlain(request)
        if let length = request.headers.text(.contentLength).flatMap({ Int($0) }), length > maximumBytes {
            throw APIError.bodyTooLarge(maximumBytes)
        }
        do {
            bytes = Array((try await request.body.collect(upTo: maximumBytes)).readableBytesView)
        } catch is NIOTooManyBytesError {
            throw APIError.bodyTooLarge(maximumBytes)
        }
        if !bytes.isEmpty, let given = request.headers.text(.contentType), !given.hasPrefix("application/json"),
            case let type = given.lowercased(), !type.hasPrefix("application/json"),
            request.method != .patch || !type.hasPrefix("application/merge-patch+json")
        {
            throw APIError(
                .unsupportedMediaType, "unsupported_media_type", "Unsupported media type", "the body must be application/json")
        }
    }

    /// The service decompresses nothing: a body that is small on the wire cannot become huge in memory.
    static func expectPlain(_ request: Request) throws {
        guard let coding = request.headers[.contentEncoding], coding.lowercased() != "identity" else { return }
        throw APIError(
            .unsupportedMediaType, "unsupported_media_type", "Unsupported media type", "the body must come without a Content-Encoding")
    }

    /// Reads the body as one object with `read`, which records faults in the reader.
    /// - Parameters:
    ///   - allowsEmpty: Take no body for an empty object.
    ///   - maximumDepth: How deep arrays and objects may nest.
    ///   - maximumValues: The greatest number of values: they bound the memory that the body takes beside its bytes.
    /// - Throws: ``APIError`` with every problem that was found.
    func object<Content>(
        allowsEmpty: Bool = false, maximumDepth: Int = JSONScanner.defaultMaximumDepth, maximumValues: Int = .max,
        _ read: (inout JSONObjectReader) -> Content?
    ) throws -> Content {
        let value: JSONValue
        do {
            value = try JSONValue.parse(
                bytes.isEmpty && allowsEmpty ? Array("{}".utf8) : bytes, maximumDepth: maximumDepth, maximumBytes: limit,
                maximumValues: maximumValues)
        } catch {
            throw APIError(.badRequest, "malformed_json", "The body is not JSON", error.description)
        }
        var reader = JSONObjectReader(value)
        let content = read(&reader)
        guard reader.problems.isEmpty, let content else { throw APIError.invalid(reader.problems.list) }
        return content
    }
}
