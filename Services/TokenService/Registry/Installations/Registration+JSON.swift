package import PushModel
package import StrictJSON
package import TokenServiceApps
package import TokenServiceKit

extension Registration {
    /// Reads the body of `PUT /v1/apps/{app}/installations/{id}`; every fault goes to `body.problems`.
    /// - Returns: nil if a field is missing or wrong.
    package init?(_ body: inout JSONObjectReader, installation: PushID, app: App) {
        body.refuseTags()
        self.init(fieldsOf: &body, installation: installation, app: app)
    }

    /// Reads the fields that an item of a list has too.
    /// - Parameter maximumTokens: How many tokens it may have.
    package init?(
        fieldsOf body: inout JSONObjectReader, installation: PushID, app: App, maximumTokens: Int = RegisteredToken.maximumListed
    ) {
        let user = body.nullableUser("user")
        let tokens = body.registeredTokens(app: app, maximum: maximumTokens)
        let keeps = body.keptPurposes()
        let profile = InstallationProfile(&body)
        let replaces = body.optionalToken("replaces")
        let expected = body.expectedOwner()
        body.finish()
        guard body.problems.isEmpty, let user else { return nil }
        self.init(
            installation: installation, user: user.name, tokens: tokens, keeps: keeps, profile: profile, replaces: replaces,
            expectedOwner: expected)
    }
}

extension RegisteredToken {
    init?(_ object: inout JSONObjectReader, app: App) {
        let purpose = object.purpose()
        let token = RegisteredToken(&object, purpose: purpose, app: app)
        object.finish()
        guard let token else { return nil }
        self = token
    }

    /// Reads token and environment.
    package init?(_ object: inout JSONObjectReader, purpose: Purpose?, app: App) {
        let token = object.token("token")
        let environment = object.optionalChoice("environment", of: APNsEnvironment.self) ?? .production
        if !app.environments.contains(environment) {
            object.problem("environment", "unsupported_value", "the app does not use this environment")
        }
        guard let token, let purpose else { return nil }
        self.init(token: token, environment: environment, purpose: purpose)
    }

    fileprivate func hasSamePlace(as other: RegisteredToken) -> Bool {
        environment == other.environment && purpose == other.purpose
    }
}

extension Purpose {
    fileprivate static var rule: String {
        "one of \(plain.map(\.rawValue).joined(separator: ", ")), activity_start:<attributes type>, activity:<the activity's id>"
    }

    /// - Returns: nil for a word that is no purpose of a token.
    fileprivate init?(ofToken word: String) {
        guard let purpose = Purpose(rawValue: word), purpose.isOfToken else { return nil }
        self = purpose
    }
}

extension InstallationProfile {
    static let maximumBytes = 64

    init(_ object: inout JSONObjectReader) {
        locale = object.locale()
        timeZone = object.deviceText("time_zone")
        appVersion = object.deviceText("app_version")
        osVersion = object.deviceText("os_version")
        deviceModel = object.deviceText("device_model")
        permission = object.optionalChoice("permission", of: Permission.self)
        appTags = object.appTags()
    }
}

/// A user as the body states it, possibly null.
package struct StatedUser {
    package static let maximumBytes = 256
    var name: String?
}

extension JSONObjectReader {
    /// One token per environment and purpose.
    mutating func registeredTokens(app: App, maximum: Int = RegisteredToken.maximumListed) -> [RegisteredToken] {
        let tokens = (objects("tokens", maximumCount: maximum) ?? []).compactMap { element in
            var element = element
            return RegisteredToken(&element, app: app)
        }
        for index in tokens.indices where tokens[..<index].contains(where: { $0.hasSamePlace(as: tokens[index]) }) {
            problem("tokens", step: "/\(index)", "duplicate", "another token of this list has the same environment and purpose")
        }
        return tokens
    }

    /// Tokens of Live Activities stay in any case. It may name these all the same: a device names each purpose for which iOS has failed.
    mutating func keptPurposes() -> Set<Purpose> {
        let words = optionalStrings("keeps", maximumCount: RegisteredToken.maximumListed, maximumBytes: 2 * Purpose.maximumNameBytes) ?? []
        let kept = words.map { Purpose(ofToken: $0) }
        for index in kept.indices where kept[index] == nil {
            problem("keeps", step: "/\(index)", "unsupported_value", Purpose.rule)
        }
        return Set(kept.compactMap { $0 })
    }

    /// `alert` where it is left out.
    fileprivate mutating func purpose() -> Purpose? {
        guard let text = optionalString("purpose", maximumBytes: 2 * Purpose.maximumNameBytes) else { return .alert }
        let purpose = Purpose(ofToken: text)
        if purpose == nil { problem("purpose", "unsupported_value", Purpose.rule) }
        return purpose
    }

    /// A required field that may be null: a registration that forgets its user must not sign a user out.
    mutating func nullableUser(_ key: String) -> StatedUser? {
        guard has(key) else {
            problem(key, "missing", "required: the user's name, or null for none")
            return nil
        }
        guard value(key)?.isNull == false else { return StatedUser(name: nil) }
        return string(key, maximumBytes: StatedUser.maximumBytes).map { StatedUser(name: $0) }
    }

    /// A text about the device, of which the beginning is kept, up to a control character: no text must cost the device its registration.
    /// An empty one is none.
    mutating func deviceText(_ key: String) -> String? { beginning(of: key) { $0 } }

    /// Calendar, currency and numbers of a device's identifier do not choose a text.
    mutating func locale() -> String? { beginning(of: "locale", LocaleTag.withoutExtensions) }

    /// - Parameter shortened: Takes away what is not kept.
    private mutating func beginning(of key: String, _ shortened: (String) -> String) -> String? {
        guard let value = optionalValue(key) else { return nil }
        guard let text = value.stringValue else {
            problem(key, "wrong_type", "expected a string, found \(value.typeName)")
            return nil
        }
        let named = String(Substring(text.utf8.prefix { !$0.isControl }))
        let kept = shortened(named).beginning(ofBytes: InstallationProfile.maximumBytes)
        return kept.isEmpty ? nil : kept
    }

    package mutating func expectedOwner() -> ExpectedOwner {
        guard has("expected_user") else { return .anyone }
        return .exactly(optionalString("expected_user", maximumBytes: StatedUser.maximumBytes))
    }

    mutating func token(_ key: String) -> DeviceToken? {
        string(key, maximumBytes: 2 * DeviceToken.maximumBytes).flatMap { checkedToken(key, $0) }
    }

    mutating func optionalToken(_ key: String) -> DeviceToken? {
        optionalString(key, maximumBytes: 2 * DeviceToken.maximumBytes).flatMap { checkedToken(key, $0) }
    }

    private func checkedToken(_ key: String, _ text: String) -> DeviceToken? {
        let token = DeviceToken(hex: text)
        if token == nil { problem(key, "invalid_token", "an even number of hex digits") }
        return token
    }
}

extension Registration {
    static let request = JSONSchema.request("Registration", fields(tokens: RegisteredToken.list))
    package static let bulkItem = JSONSchema.request(
        "NamedRegistration",
        [
            .required("id", .uuid, "The installation's id."),
            .omissible("tags", .backendTags, "The backend's. Left out, they stay as they are; `[]` clears them. \(TagAssignment.reserved)"),
        ] + fields(tokens: RegisteredToken.exportedList))

    private static func fields(tokens: JSONSchema) -> [JSONSchema.Field] {
        [
            .required("user", .user.orNull, "The signed-in user; null for none."),
            .required(
                "tokens", tokens,
                """
                All its tokens, at most one per environment and purpose. Tokens of activities that it does not name stay, and those in \
                `keeps`.
                """
            ),
            .omissible("keeps", RegisteredToken.keptPurposes),
            .omissible(
                "replaces", .deviceToken,
                """
                A token of an earlier installation of the same device, which is over. With a device credential only of the same user, or \
                of none.
                """
            ),
            .optional("expected_user", .user.orNull, "Refuse with 409 unless exactly this user is signed in now; null: unless no user is."),
        ] + InstallationProfile.stated
    }
}

extension RegisteredToken {
    static let maximumListed = 40
    static let list = JSONSchema.array(request, maximum: maximumListed).unique
    /// An export has all active tokens of an installation, also those that several registrations brought, and is imported as it is.
    package static let maximumExported = InstallationBounds().activeTokens
    static let exportedList = JSONSchema.array(request, maximum: maximumExported).unique

    static let keptPurposes = JSONSchema.array(.purpose, maximum: maximumListed).described(
        """
        Purposes whose tokens stay, though `tokens` names none: iOS has given this launch neither a token nor the answer that there is \
        none. Those of Live Activities stay in any case.
        """
    )

    private static let request = JSONSchema.request(
        "NewToken",
        [
            .required("token", .deviceToken), .omissible("environment", .environment.standard("production")),
            .omissible("purpose", .purpose.standard("alert")),
        ])

    package static let response = ResponseSchema<RegisteredToken>.object(
        "ExportedToken",
        [
            .required("token", .deviceToken) { $0.token },
            .required("environment", .word) { $0.environment },
            .required("purpose", .text(.purpose)) { $0.purpose.rawValue },
        ])
}

extension InstallationProfile {
    /// The device's report about itself, but for the app's tags.
    package static let texts: [ResponseSchema<InstallationProfile>.Field] = [
        .optional("locale", .text(.string(64).example("de_DE"))) { $0.locale },
        .optional("time_zone", .text(.string(64).example("Europe/Berlin"))) { $0.timeZone },
        .optional("app_version", .text(.string(64).example("4.2.0"))) { $0.appVersion },
        .optional("os_version", .text(.string(64).example("26.1"))) { $0.osVersion },
        .optional("device_model", .text(.string(64).example("iPhone18,1"))) { $0.deviceModel },
        .optional("permission", .word, "Whether the person lets the app show notifications; `provisional`: quietly.") { $0.permission },
    ]
    static let stated: [JSONSchema.Field] =
        [
            .omissible(
                "locale",
                .string().example("de_DE").described(
                    "Without its extensions, and at most its first 64 bytes are kept, up to a control character; an empty one is none.")),
            .omissible("time_zone", .beginning.example("Europe/Berlin")), .omissible("app_version", .beginning.example("4.2.0")),
            .omissible("os_version", .beginning.example("26.1")), .omissible("device_model", .beginning.example("iPhone18,1")),
            .omissible(
                "permission",
                .words(Permission.self).described("Whether the person lets the app show notifications; `provisional`: quietly.")),
            .omissible("app_tags", .appTags),
        ]
}

extension JSONSchema {
    fileprivate static let beginning = JSONSchema.string().described(
        "At most its first 64 bytes are kept, up to a control character; an empty one is none.")
    package static let user = JSONSchema.string(StatedUser.maximumBytes).example("ada")
    package static let purpose = JSONSchema.string(
        pattern: "^(\(Purpose.plain.map(\.rawValue).joined(separator: "|"))|activity(_start)?:[^\\x00-\\x1f\\x7f]+)$"
    ).example("alert").described(
        """
        What the token is for. `activity_start:<attributes type>` starts Live Activities; `activity:<id>` updates and ends the one with \
        this id.
        """
    )
}
