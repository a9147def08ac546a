import HTTPTypes
package import Hummingbird
import NIOCore
package import StrictJSON
import TokenServiceKit

/// A request's body: bounded, JSON, and kept as it came, because payloads are passed on verbatim.
package struct CallBody: Sendable {
    package static let maximumBytes = 65_536
    /// A body has at most one value in so many bytes of its route's limit: each takes 40 bytes of memory, also a single digit.
    package static let bytesOfValue = 16

    package let bytes: [UInt8]
    private let limit: Int
    /// The body's bytes among those of all large bodies.
    private let place: SharedLimit.Place?

    /// Refuses by the stated length before reading, and while reading where none was stated. A body of no stated length becomes a large
    /// one while it is read.
    /// - Parameters:
    ///   - maximumBytes: This route's limit.
    ///   - reserve: Takes room for a body that may have so many bytes, more than ``maximumBytes``.
    init(of request: Request, maximumBytes: Int, reserve: (Int) throws -> SharedLimit.Place?) async throws {
        limit = maximumBytes
        try Self.expectPlain(request)
        let length = request.headers.text(.contentLength).flatMap { Int($0) }
        if let length, length > maximumBytes { throw APIError.bodyTooLarge(maximumBytes) }
        var place = try length.flatMap { try $0 > Self.maximumBytes ? reserve($0) : nil }
        var bytes: [UInt8] = []
        if let length, length > 0 { bytes.reserveCapacity(length) }
        for try await part in request.body {
            guard part.readableBytes <= maximumBytes - bytes.count else { throw APIError.bodyTooLarge(maximumBytes) }
            if length == nil, place == nil, bytes.count + part.readableBytes > Self.maximumBytes { place = try reserve(maximumBytes) }
            bytes.append(contentsOf: part.readableBytesView)
        }
        self.bytes = bytes
        self.place = place
        if !bytes.isEmpty, let given = request.headers.text(.contentType), !given.hasPrefix("application/json"),
            case let type = given.lowercased(), !type.hasPrefix("application/json"),
            request.method != .patch || !type.hasPrefix("application/merge-patch+json")
        {
            throw APIError(.unsupportedMediaType, "the body must be application/json")
        }
    }

    /// The service decompresses nothing: a body that is small on the wire cannot become huge in memory.
    package static func expectPlain(_ request: Request) throws {
        guard let coding = request.headers[.contentEncoding], coding.lowercased() != "identity" else { return }
        throw APIError(.unsupportedMediaType, "the body must come without a Content-Encoding")
    }

    /// Reads the body as one object with `read`, which records faults in the reader.
    /// - Parameters:
    ///   - allowsEmpty: Take no body for an empty object.
    ///   - maximumDepth: How deep arrays and objects may nest.
    ///   - maximumValues: The greatest number of values, which bounds the memory that the body takes beside its bytes; by itself, of its
    ///     route's limit (``bytesOfValue``).
    /// - Throws: ``APIError`` with every problem that was found.
    package func object<Content>(
        allowsEmpty: Bool = false, maximumDepth: Int = JSONScanner.defaultMaximumDepth, maximumValues: Int? = nil,
        _ read: (inout JSONObjectReader) -> Content?
    ) throws -> Content {
        let value: JSONValue
        do {
            value = try JSONValue.parse(
                bytes.isEmpty && allowsEmpty ? Array("{}".utf8) : bytes, maximumDepth: maximumDepth, maximumBytes: limit,
                maximumValues: maximumValues ?? limit / Self.bytesOfValue)
        } catch {
            throw APIError(.malformedJSON, error.description)
        }
        var reader = JSONObjectReader(value)
        let content = read(&reader)
        guard reader.problems.isEmpty, let content else { throw APIError.invalid(reader.problems.list) }
        return content
    }
}
