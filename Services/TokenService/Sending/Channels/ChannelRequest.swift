package import PushModel
package import StrictJSON
package import TokenServiceApps
import TokenServiceKit

/// The body of a request for a channel: create one, or take over one that exists at Apple.
package struct ChannelRequest: Equatable, Sendable {
    package enum Origin: Equatable, Sendable {
        case new(ChannelStorage)
        case existing(ChannelID)
    }

    package var environment: APNsEnvironment
    package var origin: Origin

    /// Reports every fault in `body.problems`.
    package init?(_ body: inout JSONObjectReader, app: App) {
        let environment = body.choice("environment", of: APNsEnvironment.self)
        if let environment, !app.environments.contains(environment) {
            body.problem("environment", "unsupported_value", "an environment of the app")
        }
        let storage = body.optionalChoice("storage", of: ChannelStorage.self)
        let id = body.optionalString("channel_id", maximumBytes: Self.maximumIDBytes).map { text in
            let id = ChannelID(text)
            if id == nil { body.problem("channel_id", "invalid_channel_id", "Apple's id, in base64") }
            return id
        }
        // Null is the same as leaving it out.
        let (hasStorage, hasID) = (body.optionalValue("storage") != nil, body.optionalValue("channel_id") != nil)
        if hasStorage == hasID { body.problem("storage", hasStorage ? "conflict" : "missing", "exactly one of storage and channel_id") }
        body.finish()
        guard body.problems.isEmpty, let environment else { return nil }
        self.environment = environment
        if let id = id ?? nil {
            origin = .existing(id)
        } else if let storage {
            origin = .new(storage)
        } else {
            return nil
        }
    }

    static let maximumIDBytes = 512
}

extension ChannelRequest {
    static let request = JSONSchema.request(
        "NewChannel",
        [
            .required("environment", .words(APNsEnvironment.self)),
            .omissible(
                "storage", .words(ChannelStorage.self),
                """
                What APNs keeps for devices that are offline: `none`, or the `latest` broadcast for at most eight hours. Cannot be changed.
                """
            ),
            .omissible("channel_id", .channelID, "Instead of `storage`: take over the channel that has this id at Apple."),
        ])
}

extension JSONSchema {
    static let channelID = JSONSchema(.string(Text(pattern: "^[A-Za-z0-9+/]+={0,2}$", minimum: 1, maximum: ChannelRequest.maximumIDBytes)))
        .example("dHN0LXNyY2gtY2hubA==")
}
