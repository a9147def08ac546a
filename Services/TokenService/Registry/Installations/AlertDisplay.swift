/// Whether a device shows the app's alerts, by the permission that the app last reported (Apple: UNAuthorizationStatus).
package enum AlertDisplay: String, CaseIterable, Sendable {
    case fully
    /// In Notification Center only, without a sound.
    case quietly
    case notAtAll = "not_at_all"
    case unknown

    package init(_ permission: Permission?) {
        self =
            switch permission {
            case .authorized, .ephemeral: .fully
            case .provisional: .quietly
            case .denied, .notDetermined: .notAtAll
            case nil: .unknown
            }
    }
}

extension Permission {
    /// What a device shows with this permission: a sentence for people, without its subject. Nil if the device shows everything.
    package var alertLimit: String? {
        switch self {
        case .authorized, .ephemeral: nil
        case .provisional: "shows alerts quietly now, in Notification Center only: the permission is provisional"
        case .denied: "shows nothing now: the person has denied notifications"
        case .notDetermined: "shows nothing now: the app has not asked the person for the permission yet"
        }
    }
}
