import StrictJSON

/// Bodies of requests about channels.
enum ChannelBody {
    /// Bytes of a broadcast's body (Apple: Sending broadcast push notification requests to APNs).
    static let maximumBytes = 5120

    static func parse(_ body: [UInt8]?) throws(ChannelAnswer) -> JSONValue {
        guard let body, body.count <= maximumBytes else { throw ChannelAnswer(.payloadTooLarge) }
        guard !body.isEmpty else { throw ChannelAnswer(.payloadEmpty) }
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue.parse(body)
        } catch {
            throw ChannelAnswer(.badRequestPayload)
        }
        guard value.objectValue != nil else { throw ChannelAnswer(.badRequestPayload) }
        return value
    }

    /// `{"message-storage-policy":0|1,"push-type":"LiveActivity"}`
    /// - Returns: Whether the most recent message is stored.
    static func isStoring(_ body: [UInt8]?) throws(ChannelAnswer) -> Bool {
        let value = try parse(body)
        for field in value.objectValue ?? [] where field.key != "message-storage-policy" && field.key != "push-type" {
            throw ChannelAnswer(.badRequestParams)
        }
        guard let type = value["push-type"] else { throw ChannelAnswer(.missingPushType) }
        guard type.stringValue == "LiveActivity" else { throw ChannelAnswer(.invalidPushType) }
        switch value["message-storage-policy"]?.integerValue {
        case 0: return false
        case 1: return true
        default: throw ChannelAnswer(.missingChannelQueueSize)
        }
    }

    /// The payload of a Live Activity's update or end: a broadcast starts nothing.
    static func content(_ body: [UInt8]?) throws(ChannelAnswer) -> PayloadReader.Reading {
        _ = try parse(body)
        guard let content = NotificationContent(payload: body ?? []), let activity = content.activity, activity.event != .start else {
            throw ChannelAnswer(.badRequestPayload)
        }
        return PayloadReader.Reading(content)
    }
}
