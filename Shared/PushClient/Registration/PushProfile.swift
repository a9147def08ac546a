public import Foundation

/// What the app says about its installation beside user and tokens. Limits are those of the HTTP API: texts of at most 64 bytes, and
/// at most 100 tags of at most 64 bytes.
public struct PushProfile: Codable, Sendable, Hashable {
    public var tags: [String]
    /// `de_DE` or `de-DE`.
    public var locale: String?
    /// An IANA name such as `Europe/Berlin`.
    public var timeZone: String?
    public var appVersion: String?
    public var osVersion: String?
    public var deviceModel: String?
    /// Whether the person lets the app show notifications. Nil before the app has asked the system.
    public var permission: PushPermission?

    public init(
        tags: [String] = [], locale: String? = nil, timeZone: String? = nil, appVersion: String? = nil, osVersion: String? = nil,
        deviceModel: String? = nil, permission: PushPermission? = nil
    ) {
        self.tags = tags
        self.locale = locale
        self.timeZone = timeZone
        self.appVersion = appVersion
        self.osVersion = osVersion
        self.deviceModel = deviceModel
        self.permission = permission
    }

    /// Takes locale, time zone and versions as they are now, and leaves the rest.
    public mutating func refresh(_ bundle: Bundle = .main) {
        let version = ProcessInfo.processInfo.operatingSystemVersion
        locale = Locale.current.identifier
        timeZone = TimeZone.current.identifier
        appVersion = bundle.object(forInfoDictionaryKey: "CFBundleShortVersionString") as? String
        osVersion = "\(version.majorVersion).\(version.minorVersion).\(version.patchVersion)"
    }
}
