package import PushModel
package import StrictJSON
package import TokenServiceKit

/// The tags of an installation have two owners. A backend sets `tags`, which no registration by an app changes. An app reports `app_tags`.
/// The registry keeps both in one column, so that one index finds them, as the words of tag expressions: `beta` is a tag of the backend,
/// `app:beta` the app's tag `beta`.
package enum InstallationTags {
    /// The most tags of each owner.
    static let maximumCount = 100
    package static let maximumTagBytes = 64
    static let maximumWordBytes = maximumTagBytes + appPrefix.utf8.count

    private static let appPrefix = "app:"

    /// Whether the app set the tag. Bytes are compared, as the database compares tags.
    package static func isOfApp(word: String) -> Bool { word.utf8.starts(with: appPrefix.utf8) }

    /// - Parameter word: One of the app's.
    package static func appTag(ofWord word: String) -> String { String(decoding: word.utf8.dropFirst(appPrefix.utf8.count), as: UTF8.self) }

    /// What the column holds.
    package static func words(tags: [String], appTags: [String]) -> [String] { tags + appTags.map { appPrefix + $0 } }

    /// The backend's tags of the column.
    package static func tags(in words: [String]) -> [String] { words.filter { !isOfApp(word: $0) } }

    /// The app's tags of the column.
    static func appTags(in words: [String]) -> [String] { words.filter { isOfApp(word: $0) }.map { appTag(ofWord: $0) } }
}

/// The tags that a backend gives an installation, in place of those that it gave before.
package struct TagAssignment: Sendable {
    package var installation: PushID
    package var tags: [String]
    /// The state that the caller has seen (RFC 9110 section 13.1.1).
    package var precondition: Precondition

    package init(installation: PushID, tags: [String], precondition: Precondition = .none) {
        self.installation = installation
        self.tags = tags
        self.precondition = precondition
    }

    /// Reads the body of `PUT /v1/apps/{app}/installations/{id}/tags`.
    /// - Returns: nil if the field is missing or wrong; every fault is in `body.problems`.
    init?(_ body: inout JSONObjectReader, installation: PushID, precondition: Precondition) {
        if !body.has("tags") { body.problem("tags", "missing", "required: all tags of the backend; [] for none") }
        let tags = body.tags()
        body.finish()
        guard body.problems.isEmpty, let tags else { return nil }
        self.init(installation: installation, tags: tags, precondition: precondition)
    }

    static let request = JSONSchema.request("NewTags", [.required("tags", .backendTags, "All of them; `[]` for none. \(reserved)")])
    static let reserved = "None begins with `permission:` or `app:`, which stand for other fields in a tag expression."
}

extension JSONObjectReader {
    /// The backend's.
    /// - Returns: nil if the field is absent or null.
    package mutating func tags() -> [String]? {
        let tags = optionalStrings("tags", maximumCount: InstallationTags.maximumCount, maximumBytes: InstallationTags.maximumTagBytes)
        for (index, tag) in (tags ?? []).enumerated() where ReportedPermission.isWord(tag) || InstallationTags.isOfApp(word: tag) {
            problem(
                "tags", step: "/\(index)", "not_allowed",
                "in a tag expression permission:… stands for the field permission, and app:… for the field app_tags")
        }
        return tags
    }

    mutating func appTags() -> [String] {
        optionalStrings("app_tags", maximumCount: InstallationTags.maximumCount, maximumBytes: InstallationTags.maximumTagBytes) ?? []
    }

    /// An app's registration may come by way of its backend, with the backend's key. So no key may state the backend's tags in one.
    mutating func refuseTags() {
        guard has("tags") else { return }
        problem(
            "tags", "not_allowed",
            "no registration states the backend's tags: PUT …/installations/{id}/tags does; the app's own tags are the field app_tags")
    }
}

extension JSONSchema {
    package static let tag = JSONSchema.string(InstallationTags.maximumTagBytes).example("beta")
    static let backendTags = JSONSchema.array(tag, maximum: InstallationTags.maximumCount)
    static let appTags = backendTags.described("The app's own. A tag expression names them as `app:beta`.")
}

/// The permission of an installation as filters and tag expressions name it: also for an app that has reported none.
package enum ReportedPermission: RawRepresentable, CaseIterable, Hashable, Sendable {
    case reported(Permission)
    case unknown

    package static let allCases = Permission.allCases.map { ReportedPermission.reported($0) } + [.unknown]

    package init?(rawValue: String) {
        if rawValue == "unknown" {
            self = .unknown
        } else if let permission = Permission(rawValue: rawValue) {
            self = .reported(permission)
        } else {
            return nil
        }
    }

    package var rawValue: String {
        switch self {
        case .reported(let permission): permission.rawValue
        case .unknown: "unknown"
        }
    }
}

/// `permission:denied`: in a tag expression it stands for the permission. Registrations refuse a tag that begins so.
extension ReportedPermission {
    private static let prefix = "permission:"

    /// Whether the tag stands for a permission. Bytes are compared, as the database compares tags.
    package static func isWord(_ tag: String) -> Bool { tag.utf8.starts(with: prefix.utf8) }

    package init?(word: String) { self.init(rawValue: String(decoding: word.utf8.dropFirst(Self.prefix.utf8.count), as: UTF8.self)) }

    package var word: String { Self.prefix + rawValue }
}
