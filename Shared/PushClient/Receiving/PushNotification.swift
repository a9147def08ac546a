public import Foundation

/// A notification's payload: Apple's part, typed, and the app's own part (Apple, "Generating a remote notification").
public struct PushNotification: Sendable, Hashable {
    /// The whole payload, as JSON.
    public let json: Data
    public let aps: APS
    /// The delivery's id, which receipts name. Nil if the platform did not put it into the payload.
    public let delivery: UUID?

    /// The payload is no JSON object, or its `aps` is malformed.
    public struct Malformed: Error, CustomStringConvertible {
        public let description: String
    }

    private struct Known: Decodable {
        struct Platform: Decodable { var delivery: UUID? }
        var aps: APS?
        var push: Platform?
    }

    /// - Parameter json: The payload. A payload without `aps`, such as a File Provider's, reads as an empty ``APS``.
    public init(json: Data) throws(Malformed) {
        do {
            let known = try JSONDecoder().decode(Known.self, from: json)
            self.json = json
            aps = known.aps ?? APS()
            delivery = known.push?.delivery
        } catch {
            throw Malformed(description: "the payload is not a JSON object with a well-formed aps: \(error)")
        }
    }

    /// The same, from the dictionary of a callback.
    public init(userInfo: [AnyHashable: Any]) throws(Malformed) {
        let object = Dictionary(userInfo.compactMap { key, value in (key as? String).map { ($0, value) } }) { first, _ in first }
        guard JSONSerialization.isValidJSONObject(object), let json = try? JSONSerialization.data(withJSONObject: object) else {
            throw Malformed(description: "the dictionary of the notification holds what JSON cannot express")
        }
        try self.init(json: json)
    }

    /// Decodes the whole payload: the app's own part stands beside `aps`.
    public func decode<Part: Decodable>(_ type: Part.Type, with decoder: JSONDecoder = JSONDecoder()) throws -> Part {
        try decoder.decode(type, from: json)
    }
}
