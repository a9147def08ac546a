import Foundation

extension PushRequest {
    /// - Parameter app: The app's name on the platform.
    init(_ upload: Upload, app: String, installation: UUID, credential: DeviceCredential?) throws {
        operation = upload.operation
        self.installation = installation
        if case .exactly(let user) = upload.expected { expectedUser = user }
        let root = "/v1/apps/\(Self.encoded(app))/installations/\(installation.uuidString.lowercased())"
        headers = credential.map { ["Authorization": "Bearer \($0.credential)"] } ?? [:]
        switch upload {
        case .register(let registration):
            (method, path) = ("PUT", root)
            body = try Self.encoder.encode(RegistrationBody(registration, isWhole: true))
        case .change(let registration):
            (method, path) = ("PATCH", root)
            body = try Self.encoder.encode(RegistrationBody(registration, isWhole: false))
        case .signOut(let expected):
            (method, path) = ("POST", root + "/logout")
            body = try Self.encoder.encode(SignOutBody(expected: expected))
        case .deregister(let expected):
            // In the query: a proxy may drop the body of a DELETE.
            var query = ""
            if case .exactly(let user?) = expected { query = "?expected_user=" + Self.encoded(user) }
            (method, path) = ("DELETE", root + query)
        case .receipts(let receipts):
            (method, path) = ("POST", root + "/receipts")
            body = try Self.encoder.encode(ReceiptsBody(receipts: receipts.map(ReceiptsBody.Item.init)))
        case .reportActivity(let name, let token, let expected):
            (method, path) = ("PUT", root + "/activities/" + Self.encoded(name.id))
            body = try Self.encoder.encode(ActivityBody(token: token, expected: expected))
        case .endActivity(let name): (method, path) = ("DELETE", root + "/activities/" + Self.encoded(name.id))
        }
        if body != nil { headers["Content-Type"] = "application/json" }
    }

    private static var encoder: JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }

    /// Everything but RFC 3986's unreserved characters: in a query, a bare plus would be a blank.
    private static func encoded(_ text: String) -> String {
        text.utf8.map { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                return String(UnicodeScalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                return digits.count == 1 ? "%0" + digits : "%" + digits
            }
        }.joined()
    }
}

private struct RegistrationBody: Encodable {
    enum Key: String, CodingKey {
        case user, tokens, keeps, locale, permission
        case appTags = "app_tags"
        case timeZone = "time_zone"
        case appVersion = "app_version"
        case osVersion = "os_version"
        case deviceModel = "device_model"
        case expectedUser = "expected_user"
    }

    struct Token: Encodable {
        var token: String
        var environment: PushEnvironment
        var purpose: PushTokenPurpose
    }

    let registration: Upload.Registration
    let isWhole: Bool

    init(_ registration: Upload.Registration, isWhole: Bool) {
        self.registration = registration
        self.isWhole = isWhole
    }

    func encode(to encoder: any Encoder) throws {
        var body = encoder.container(keyedBy: Key.self)
        let profile = registration.claim.profile
        // Null says "no user", or in a PATCH "remove": a field that is left out of a PATCH would keep its old value.
        try body.encode(registration.claim.user, forKey: .user)
        try body.encode(profile.appTags, forKey: .appTags)
        try body.encode(profile.locale.map(Self.withoutExtensions), forKey: .locale)
        try body.encode(profile.timeZone, forKey: .timeZone)
        try body.encode(profile.appVersion, forKey: .appVersion)
        try body.encode(profile.osVersion, forKey: .osVersion)
        try body.encode(profile.deviceModel, forKey: .deviceModel)
        try body.encode(profile.permission, forKey: .permission)
        if case .exactly(let user) = registration.expected { try body.encode(user, forKey: .expectedUser) }
        guard isWhole else { return }
        let tokens = registration.tokens.map { Token(token: $0.hex, environment: $0.environment, purpose: $0.purpose) }
        try body.encode(tokens, forKey: .tokens)
        let keeps = registration.keeps.map(\.rawValue).sorted()
        if !keeps.isEmpty { try body.encode(keeps, forKey: .keeps) }
    }
}

extension RegistrationBody {
    /// `de_DE` of `de_DE@calendar=buddhist;numbers=latn` and of `de-DE-u-ca-buddhist`: calendar and currency do not choose a text, and they
    /// may be longer than the server takes.
    private static func withoutExtensions(_ identifier: String) -> String {
        let subtags = identifier.prefix { $0 != "@" }.split(omittingEmptySubsequences: false) { $0 == "-" || $0 == "_" }
        guard let extensions = subtags.dropFirst().dropLast().first(where: { $0.utf8.count == 1 }) else {
            return String(identifier.prefix { $0 != "@" })
        }
        return String(identifier[..<identifier.index(before: extensions.startIndex)])
    }
}

private struct SignOutBody: Encodable {
    enum Key: String, CodingKey {
        case expectedUser = "expected_user"
    }

    let expected: ExpectedUser

    func encode(to encoder: any Encoder) throws {
        var body = encoder.container(keyedBy: Key.self)
        if case .exactly(let user) = expected { try body.encode(user, forKey: .expectedUser) }
    }
}

private struct ActivityBody: Encodable {
    enum Key: String, CodingKey {
        case token, environment, channel
        case attributesType = "attributes_type"
        case frequentUpdates = "frequent_updates"
        case expectedUser = "expected_user"
    }

    let token: ActivityToken
    let expected: ExpectedUser

    func encode(to encoder: any Encoder) throws {
        var body = encoder.container(keyedBy: Key.self)
        try body.encode(token.hex, forKey: .token)
        try body.encode(token.environment, forKey: .environment)
        try body.encodeIfPresent(token.attributesType, forKey: .attributesType)
        try body.encodeIfPresent(token.frequentUpdates, forKey: .frequentUpdates)
        try body.encodeIfPresent(token.channel, forKey: .channel)
        if case .exactly(let user) = expected { try body.encode(user, forKey: .expectedUser) }
    }
}

private struct ReceiptsBody: Encodable {
    struct Item: Encodable {
        var notification: String
        var job: Int
        var event: PushReceipt.Event
        var at: String

        init(_ receipt: PushReceipt) {
            notification = receipt.source.notification.uuidString.lowercased()
            job = receipt.source.job
            event = receipt.event
            at = receipt.at.formatted(.iso8601.year().month().day().timeZone(separator: .omitted).time(includingFractionalSeconds: true))
        }
    }

    var receipts: [Item]
}
