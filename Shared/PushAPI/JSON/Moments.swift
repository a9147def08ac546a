import Foundation

/// RFC 3339 with milliseconds, as the API writes moments.
private let moments = Date.ISO8601FormatStyle(includingFractionalSeconds: true)

extension Date {
    var rfc3339: String { formatted(moments) }
}

extension PushAPI.Answer {
    /// - Throws: ``PushAPIError/unreadable(_:)``
    func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws(PushAPIError) -> Value {
        do { return try JSONDecoder.ofAnswers.decode(type, from: Data(body)) } catch {
            throw .unreadable("\(call) was answered with another JSON than the API describes: \(error)")
        }
    }
}

extension JSONDecoder {
    static var ofAnswers: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        decoder.dateDecodingStrategy = .custom { decoder in try moments.parse(try decoder.singleValueContainer().decode(String.self)) }
        return decoder
    }
}
