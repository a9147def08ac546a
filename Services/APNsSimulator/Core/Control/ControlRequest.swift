import HTTPTypes
import Hummingbird
import NIOCore
import StrictJSON

/// A request of the control API, read strictly: unknown fields are refused, so that a test's typing mistake cannot look like a success.
struct ControlRequest {
    private static let maximumBytes = 1 << 20
    static let waits = ["wait_count", "timeout_seconds"]

    let request: Request
    let context: BasicRequestContext

    /// The `{token}` of the path.
    func token() throws -> TokenKey {
        try APNsSimulator.key(context.parameters.require("token"))
    }

    /// Reads the body as one object with `read`, which records faults in the reader.
    func body<Content>(_ read: (inout JSONObjectReader) -> Content?) async throws -> Content {
        let bytes: [UInt8]
        if let length = request.headers[.contentLength].flatMap({ Int($0) }), length > Self.maximumBytes { throw Self.tooLarge }
        do {
            bytes = Array(try await request.body.collect(upTo: Self.maximumBytes).readableBytesView)
        } catch is NIOTooManyBytesError {
            throw Self.tooLarge
        }
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue.parse(bytes, maximumBytes: Self.maximumBytes)
        } catch {
            throw ControlProblem(.badRequest, "malformed_json", "The body is not JSON", error.description)
        }
        var reader = JSONObjectReader(value)
        let content = read(&reader)
        reader.finish()
        guard reader.problems.isEmpty, let content else { throw ControlProblem.invalid(reader.problems.list) }
        return content
    }

    private static let tooLarge = ControlProblem(
        .contentTooLarge, "body_too_large", "Body too large", "at most \(maximumBytes) bytes")

    /// Refuses query parameters other than these.
    func allowQuery(_ names: [String]) throws {
        for name in request.uri.queryParameters.map(\.key) where !names.contains(String(name)) {
            throw ControlProblem.invalidQuery(String(name), "not a parameter of this request")
        }
    }

    func number(_ name: String, in range: ClosedRange<Int64>) throws -> Int64? {
        guard let text = request.uri.queryParameters[name[...]] else { return nil }
        guard let number = Int64(text), range.contains(number) else {
            throw ControlProblem.invalidQuery(name, "a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    func text(_ name: String) -> String? {
        request.uri.queryParameters[name[...]].map { String($0) }
    }

    func choice<Choice: RawRepresentable<String> & CaseIterable>(_ name: String, of type: Choice.Type) throws -> Choice? {
        guard let text = text(name) else { return nil }
        guard let choice = Choice(rawValue: text) else {
            throw ControlProblem.invalidQuery(name, "one of " + Choice.allCases.map(\.rawValue).joined(separator: ", "))
        }
        return choice
    }

    /// `wait_count` and `timeout_seconds`: nil if the client does not wait.
    func wait() throws -> (count: Int64, timeout: Duration)? {
        let timeout = try number("timeout_seconds", in: 0...600) ?? 30
        return try number("wait_count", in: 0...10_000_000).map { ($0, .seconds(timeout)) }
    }
}
