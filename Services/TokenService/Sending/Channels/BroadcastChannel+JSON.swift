import PushModel
import TokenServiceKit

/// A channel as the API shows it.
struct ShownChannel: Sendable {
    let channel: BroadcastChannel
    /// Live Activities that follow it, at most ``maximumFollowers``; nil in lists.
    var followers: Int?

    static let maximumFollowers = 10_000

    static let page = PageResponse.schema("Channels", "channels", of: response)
    static let response = ResponseSchema<ShownChannel>.object(
        "Channel",
        [
            .nullable("name", .text(.string(Purpose.maximumNameBytes).example("game-17")), "Null: no backend has named it.") {
                $0.channel.name
            },
            .required("environment", .word) { $0.channel.environment },
            .nullable("storage", .word, "Null until Apple has said it.") { $0.channel.storage },
            .nullable("channel_id", .text(.channelID), "Apple's id, which the app subscribes to. Null until Apple has answered.") {
                $0.channel.appleID?.text
            },
            .required(
                "state", .word,
                """
                `creating`: Apple has not answered yet; `open`: it exists at Apple; `deleting`: Apple is still to delete it; `failed`: Apple refused \
                to create it; `foreign`: it exists at Apple, and another program made it; `lost`: it was open, and Apple does not have it any more.
                """
            ) { $0.channel.state },
            .optional("reason", .text(.string().example("FeatureNotEnabled")), "Why Apple refused it, or why it waits.") {
                $0.channel.reason
            },
            .required("created_at", .time) { $0.channel.createdAt },
            .required("changed_at", .time, "When its state changed last.") { $0.channel.changedAt },
            .optional("followers", .count, "Live Activities that follow it, counted to 10,000. Absent in lists.") { $0.followers },
        ])
}
