import PushModel
import StrictJSON

/// The kind of push that a body must be if the sender does not say: only if it cannot be any other.
enum DerivedPushType: Equatable {
    case type(PushType)
    /// Why it could be several.
    case ambiguous(String)

    private static let activityKeys = ContentField.all.filter { $0.isSign && $0.pushes == .activity }.map(\.key)
    private static let notificationKeys = ContentField.all.filter { $0.isSign && $0.pushes == .notification }.map(\.key)

    init(_ payload: JSONValue) {
        guard let aps = payload["aps"] else {
            self = .ambiguous("without aps it could be voip, location, complication, fileprovider, mdm or pushtotalk")
            return
        }
        let has = { (keys: [String]) in keys.contains { aps[$0].map { !$0.isNull } ?? false } }
        if has(["content-changed"]) {
            self = .ambiguous("content-changed is for widgets and for controls")
        } else if has(Self.activityKeys) {
            self = has(Self.notificationKeys) ? .ambiguous("it has keys of a Live Activity and of a notification") : .type(.liveactivity)
        } else if has(["alert", "badge", "sound"]) {
            self = .type(.alert)
        } else if aps["content-available"]?.integerValue == 1, aps.objectValue?.count == 1 {
            self = .type(.background)
        } else {
            self = .ambiguous("there is nothing to show, and it is not content-available alone")
        }
    }
}

extension JSONObjectReader {
    /// The stated push type, else the one that all bodies have.
    mutating func pushType(of drafts: [ContentDraft]) -> PushType? {
        let isStated = optionalValue("push_type") != nil
        let stated = optionalChoice("push_type", of: PushType.self)
        if isStated { return stated }
        var type: PushType?
        for draft in drafts {
            switch DerivedPushType(draft.value) {
            case .ambiguous(let reason):
                problem("push_type", "ambiguous_push_type", "required here: \(reason)")
                return nil
            case .type(let derived):
                if let type, type != derived {
                    problems.add(
                        JSONProblem(
                            pointer: draft.place.pointer, code: "conflict",
                            detail: "this is push type \(derived.rawValue), the one before \(type.rawValue)"))
                    return nil
                }
                type = derived
            }
        }
        return type
    }
}
