package import PushModel
import StrictJSON

/// What an answer of channel management holds beside status and reason. A class, so that the answers of pushes, which have none, stay small.
package final class APNsChannelContent: Sendable {
    /// The longest body that is kept: a list of 10,000 ids, which is Apple's limit, takes some hundred thousand bytes.
    static let maximumBytes = 4 << 20

    /// `apns-channel-id`: the channel that was created.
    package let channelID: String?
    private let body: [UInt8]

    package init(channelID: String?, body: [UInt8]) {
        self.channelID = channelID
        self.body = body
    }

    /// Of a channel that was read; nil if the body does not say it.
    package var storage: ChannelStorage? {
        value?["message-storage-policy"]?.integerValue.flatMap { policy in ChannelStorage.allCases.first { $0.policy == policy } }
    }

    /// Of a list; nil if the body is none.
    package var channels: [String]? {
        guard let elements = value?["channels"]?.arrayValue else { return nil }
        let ids = elements.compactMap(\.stringValue)
        return ids.count == elements.count ? ids : nil
    }

    private var value: JSONValue? {
        do { return try JSONValue.parse(body, maximumDepth: 8, maximumBytes: Self.maximumBytes) } catch { return nil }
    }
}

extension ChannelStorage {
    /// Apple's number (Sending channel management requests to APNs).
    var policy: Int64 {
        switch self {
        case .none: 0
        case .latest: 1
        }
    }
}
