import StrictJSON

extension PushAPI {
    /// A device token of an installation, as the app gets it from iOS.
    public struct Token: Sendable, Hashable {
        /// Hex digits.
        public var token: String
        /// `production` or `sandbox`.
        public var environment: String
        /// `alert`, `voip` and so on; `activity_start:<attributes type>` and `activity:<id>` for Live Activities.
        public var purpose: String

        public init(_ token: String, environment: String = "production", purpose: String = "alert") {
            self.token = token
            self.environment = environment
            self.purpose = purpose
        }
    }

    /// What an installation is: its whole state. A field that is left out is cleared; a token that is not named is retired,
    /// but for those of Live Activities and of the purposes that it keeps.
    public struct Registration: Sendable, Hashable {
        /// The user who is signed in; nil for none.
        public var user: String?
        /// All tokens of the installation, at most one for each environment and purpose.
        public var tokens: [Token]
        /// Purposes, such as `location`, whose tokens stay although ``tokens`` names none: the device could not read them in this launch.
        public var keeps: [String]
        public var profile: Profile
        /// A token that the app knows to be over.
        public var replaces: String?

        public init(user: String?, tokens: [Token], keeps: [String] = [], profile: Profile = Profile(), replaces: String? = nil) {
            self.user = user
            self.tokens = tokens
            self.keeps = keeps
            self.profile = profile
            self.replaces = replaces
        }

        func json(_ expected: ExpectedUser) -> [UInt8] {
            JSONWriter.object { body in
                body.nullable("user", user)
                body.array("tokens") { array in for token in tokens { token.write(&array) } }
                if !keeps.isEmpty { body.field("keeps", keeps) }
                body.field("locale", profile.locale)
                body.field("time_zone", profile.timeZone)
                body.field("app_version", profile.appVersion)
                body.field("os_version", profile.osVersion)
                body.field("device_model", profile.deviceModel)
                body.field("permission", profile.permission)
                if !profile.appTags.isEmpty { body.field("app_tags", profile.appTags) }
                body.field("replaces", replaces)
                expected.write(&body)
            }
        }
    }

    /// What the device reports about itself. Each text has at most 64 bytes.
    public struct Profile: Sendable, Hashable {
        /// `de_DE` or `de-DE`.
        public var locale: String?
        /// An IANA name, as `Europe/Berlin`.
        public var timeZone: String?
        public var appVersion: String?
        public var osVersion: String?
        public var deviceModel: String?
        /// `not_determined`, `provisional`, `denied`, `authorized` or `ephemeral`.
        public var permission: String?
        /// The app's own tags; a tag expression names them as `app:beta`. Your backend's are set by ``App/setTags(_:_:ifMatch:)``.
        public var appTags: [String] = []

        public init() {}
    }

    /// A change of single fields. A field that is nil stays as it is.
    public struct Change: Sendable, Hashable {
        /// A new value, or none.
        public enum Field: Sendable, Hashable {
            case value(String)
            case removed
        }

        public var user: Field?
        /// All tokens: those that are not named are retired, but for those of Live Activities.
        public var tokens: [Token]?
        /// The purposes that it keeps, as in a ``Registration``.
        public var keeps: [String] = []
        public var locale: Field?
        public var timeZone: Field?
        public var appVersion: Field?
        public var osVersion: Field?
        public var deviceModel: Field?
        public var permission: Field?
        /// The app's own tags.
        public var appTags: [String]?
        /// A token that the app knows to be over.
        public var replaces: String?

        public init() {}

        func json(_ expected: ExpectedUser) -> [UInt8] {
            JSONWriter.object { body in
                body.field("user", user)
                if let tokens { body.array("tokens") { array in for token in tokens { token.write(&array) } } }
                if !keeps.isEmpty { body.field("keeps", keeps) }
                body.field("locale", locale)
                body.field("time_zone", timeZone)
                body.field("app_version", appVersion)
                body.field("os_version", osVersion)
                body.field("device_model", deviceModel)
                body.field("permission", permission)
                if let appTags { body.field("app_tags", appTags) }
                body.field("replaces", replaces)
                expected.write(&body)
            }
        }
    }

    /// Guards a change against one that came in between: with another user signed in, the service answers 409 `owner_mismatch`.
    public enum ExpectedUser: Sendable, Hashable {
        case anyone
        case nobody
        case user(String)

        func write(_ body: inout JSONWriter) {
            switch self {
            case .anyone: break
            case .nobody: body.null("expected_user")
            case .user(let user): body.field("expected_user", user)
            }
        }
    }
}

extension PushAPI.Token {
    fileprivate func write(_ array: inout JSONWriter) {
        array.object { object in
            object.field("token", token)
            object.field("environment", environment)
            object.field("purpose", purpose)
        }
    }
}

extension JSONWriter {
    mutating func nullable(_ name: String, _ text: String?) {
        if let text { field(name, text) } else { null(name) }
    }

    fileprivate mutating func field(_ name: String, _ change: PushAPI.Change.Field?) {
        switch change {
        case nil: break
        case .value(let text): field(name, text)
        case .removed: null(name)
        }
    }
}
