import Hummingbird
import PushModel
import StrictJSON

/// `/v1/admin/apps`
struct AppsController: Sendable {
    let apps: AppStore

    func bind(to router: APIRouter) {
        router.on(.createApp, create)
        router.on(.listApps, list)
    }

    private struct NewApp {
        var slug: AppSlug
        var bundleID: String
        var devicePolicy: DevicePolicy
        var environments: [APNsEnvironment]

        init?(_ body: inout JSONObjectReader) {
            let slug = body.string("slug", maximumBytes: 64).flatMap { text -> AppSlug? in
                let slug = AppSlug(text)
                if slug == nil { body.problem("slug", "invalid_character", AppSlug.rule) }
                return slug
            }
            let bundleID = body.string("bundle_id", maximumBytes: 155)
            if let bundleID, !bundleID.utf8.allSatisfy(Self.isBundleIDCharacter) {
                body.problem("bundle_id", "invalid_character", "letters, digits, hyphen, underscore and full stop")
            }
            let policy = body.choice("device_policy", of: DevicePolicy.self)
            let words = body.strings("environments", maximumCount: 2, maximumBytes: 16)
            let environments = (words ?? []).compactMap(APNsEnvironment.init(rawValue:))
            if let words, environments.count != words.count || Set(words).count != words.count || words.isEmpty {
                body.problem("environments", "unsupported_value", "one or both of production and sandbox")
            }
            body.finish()
            guard let slug, let bundleID, let policy else { return nil }
            self.slug = slug
            self.bundleID = bundleID
            devicePolicy = policy
            self.environments = environments
        }

        /// The bundle id becomes a header's value.
        private static func isBundleIDCharacter(_ byte: UInt8) -> Bool {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
                true
            default: false
            }
        }
    }

    @Sendable private func create(_ call: APICall) async throws -> Response {
        let new = try await call.body().object { NewApp(&$0) }
        let creation = try await apps.create(
            slug: new.slug, bundleID: new.bundleID, devicePolicy: new.devicePolicy, environments: new.environments)
        switch creation {
        case .created(let app): return JSONAnswer.response(.created) { Self.write(app, to: &$0) }
        case .existed(let app): return JSONAnswer.response(.ok) { Self.write(app, to: &$0) }
        case .differs:
            throw APIError(.conflict, "app_differs", "The app exists", "an app of this slug exists with other properties")
        }
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        let all = try await apps.all()
        return JSONAnswer.response(.ok) { writer in
            writer.object { object in
                object.array("apps") { array in
                    for app in all { Self.write(app, to: &array) }
                }
            }
        }
    }

    private static func write(_ app: App, to writer: inout JSONWriter) {
        writer.object { object in
            object.field("slug", app.slug.text)
            object.field("bundle_id", app.bundleID)
            object.field("device_policy", app.devicePolicy.rawValue)
            object.field("environments", app.environments.map(\.rawValue))
        }
    }
}
