public import Foundation

/// What the app says about its installation beside user and tokens. Limits are those of the HTTP API: texts of at most 64 bytes, and
/// at most 100 tags of at most 64 bytes. The API refuses a tag with a control character, and keeps a text up to one.
public struct PushProfile: Codable, Sendable, Hashable {
    /// The app's own tags. A sender names them as `app:football` in a tag expression. The backend gives an installation other tags,
    /// which the app does not state. So a sender cannot take a tag of the app for one of the backend.
    public var appTags: [String]
    /// `de_DE` or `de-DE`.
    public var locale: String?
    /// An IANA name such as `Europe/Berlin`.
    public var timeZone: String?
    /// ``refresh(_:)`` takes it from `CFBundleShortVersionString`; nil if the bundle has none.
    public var appVersion: String?
    /// ``refresh(_:)`` writes three numbers, such as `26.1.0`.
    public var osVersion: String?
    /// Any text, such as `iPhone17,1`. ``refresh(_:)`` leaves it.
    public var deviceModel: String?
    /// Whether the person lets the app show notifications. Nil before the app has asked the system.
    public var permission: PushPermission?

    /// A registration states every field: if one is nil, the server forgets the value that it had.
    public init(
        appTags: [String] = [], locale: String? = nil, timeZone: String? = nil, appVersion: String? = nil, osVersion: String? = nil,
        deviceModel: String? = nil, permission: PushPermission? = nil
    ) {
        self.appTags = appTags
        self.locale = locale
        self.timeZone = timeZone
        self.appVersion = appVersion
        self.osVersion = osVersion
        self.deviceModel = deviceModel
        self.permission = permission
    }

    /// Takes locale, time zone and versions as they are now, and leaves the rest.
    public mutating func refresh(_ bundle: Bundle = .main, locale current: Locale = .current) {
        let version = ProcessInfo.processInfo.operatingSystemVersion
        // The keywords that may follow, such as `@calendar=islamic;rg=sazzzz`, can make it longer than the API takes.
        locale = String(current.identifier.prefix { $0 != "@" })
        timeZone = TimeZone.current.identifier
        appVersion = bundle.object(forInfoDictionaryKey: "CFBundleShortVersionString") as? String
        osVersion = "\(version.majorVersion).\(version.minorVersion).\(version.patchVersion)"
    }
}
