public import Foundation

/// A notification's payload: Apple's part, typed, and the app's own part (Apple, "Generating a remote notification").
public struct PushNotification: Sendable, Hashable {
    /// The whole payload, as JSON.
    public let json: Data
    /// Apple's part; empty if the payload has no `aps`.
    public let aps: APS
    /// What receipts name. Nil if the sender did not ask for receipts.
    public let source: PushSource?

    /// The payload is no JSON object, or its `aps` is malformed.
    public struct Malformed: Error, CustomStringConvertible {
        /// The reason, in English, for logs.
        public let description: String
    }

    private struct Known: Decodable {
        var aps: APS?
        var source: PushSource?

        enum CodingKeys: String, CodingKey {
            case aps
            case source = "push-receipt"
        }

        init(from decoder: any Decoder) throws {
            let payload = try decoder.container(keyedBy: CodingKeys.self)
            aps = try payload.decodeIfPresent(APS.self, forKey: .aps)
            // Of another shape, the key is the app's own.
            source = try? payload.decodeIfPresent(PushSource.self, forKey: .source)
        }
    }

    /// - Parameter json: The payload. A payload without `aps`, such as a File Provider's, reads as an empty ``APS``.
    public init(json: Data) throws(Malformed) {
        do {
            let known = try JSONDecoder().decode(Known.self, from: json)
            self.json = json
            aps = known.aps ?? APS()
            source = known.source
        } catch {
            throw Malformed(description: "the payload is not a JSON object with a well-formed aps: \(error)")
        }
    }

    /// Reads the notification from the dictionary of a callback.
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

/// What the person did with a notification.
public struct PushTap: Sendable, Hashable {
    /// `UNNotificationResponse.actionIdentifier`, typed.
    public enum Action: Sendable, Hashable {
        /// Tapped it (`UNNotificationDefaultActionIdentifier`).
        case open
        /// Dismissed it (`UNNotificationDismissActionIdentifier`). The system says so only for a category with `customDismissAction`.
        case dismiss
        /// Chose an action of the category, by its identifier.
        case custom(String)
    }

    /// The notification that the person answered.
    public var notification: PushNotification
    /// For a notification with a source, the client reports ``Action/dismiss`` as `dismissed`, and any other action as `opened`.
    public var action: Action
    /// What the person typed into a text action.
    public var text: String?

    /// Makes a tap for tests. The adaptor makes it from a `UNNotificationResponse`.
    public init(notification: PushNotification, action: Action, text: String? = nil) {
        self.notification = notification
        self.action = action
        self.text = text
    }
}

/// Which handler gets which tap. The app gives all of them at once, so that no tap reaches a general handler too early.
public struct PushRoutes: Sendable {
    /// It gets each tap once. The system's answer waits until it returns (``PushInbox/put(_:budget:clock:answer:)``): an app that an
    /// action has started in the background may be suspended after that.
    public typealias Handler = @MainActor @Sendable (PushTap) async -> Void

    private let byCategory: [String: Handler]
    private let otherwise: Handler

    /// - Parameters:
    ///   - byCategory: A handler for each category (`aps.category`).
    ///   - otherwise: For taps of other categories, and of none.
    public init(_ byCategory: [String: Handler] = [:], otherwise: @escaping Handler) {
        self.byCategory = byCategory
        self.otherwise = otherwise
    }

    @MainActor func handle(_ tap: PushTap) async {
        let handler = tap.notification.aps.category.flatMap { byCategory[$0] } ?? otherwise
        await handler(tap)
    }
}
