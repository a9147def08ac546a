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

    /// By bytes, as the database compares tags.
    package static func isWord(_ tag: String) -> Bool { tag.utf8.starts(with: prefix.utf8) }

    package init?(word: String) { self.init(rawValue: String(decoding: word.utf8.dropFirst(Self.prefix.utf8.count), as: UTF8.self)) }

    package var word: String { Self.prefix + rawValue }
}
