import StrictJSON

extension PushJob {
    /// The job for people: what the dead-letter tools show, one line of JSON.
    ///
    /// - Parameter includingTokens: Without, which is the default, each delivery shows its token's `hint` instead: whole tokens are personal
    ///   data, and so is the payload, of which only the size is shown then.
    package func jsonDescription(includingTokens: Bool = false) -> String {
        var writer = JSONWriter(reservingCapacity: payload.count + 512 + deliveries.count * 288)
        writer.object { writer in
            writer.field("v", Self.currentVersion)
            writer.plainField("notification", notification.append)
            if let original { writer.plainField("original", original.append) }
            writer.field("app", app.text)
            writer.field("lane", lane.rawValue)
            writer.field("push_type", pushType.rawValue)
            writer.field("topic", topic)
            writer.field("priority", priority)
            writer.field("collapse_id", collapseID)
            writer.field("apns_expiration", apnsExpiration)
            writer.field("expires_at_ms", expiresAt)
            writer.field("accepted_at_ms", acceptedAt)
            writer.field("attempt", attempt)
            writer.field("on_unknown", onUnknown.rawValue)
            if isBroadcast { writer.field("broadcast", true) }
            if includingTokens { writePayload(to: &writer) } else { writer.field("payload_bytes", payload.count) }
            writer.array("deliveries") { writer in
                for delivery in deliveries { delivery.write(to: &writer, includingToken: includingTokens, isBroadcast: isBroadcast) }
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// As it is if it is JSON, which the API has made sure of; else as text.
    private func writePayload(to writer: inout JSONWriter) {
        do {
            _ = try JSONValue.parse(payload)
            writer.field("payload", raw: payload)
        } catch {
            writer.field("payload", String(decoding: payload, as: UTF8.self))
        }
    }
}

extension PushJob.Delivery {
    /// A channel's id is no personal data.
    fileprivate func write(to writer: inout JSONWriter, includingToken: Bool, isBroadcast: Bool) {
        writer.object { writer in
            writer.plainField("id", id.append)
            if isBroadcast {
                writer.field("channel_id", ChannelID(token).text)
            } else if includingToken {
                writer.plainField("token", token.appendHex)
            } else {
                writer.field("hint", token.hint)
            }
            writer.field("environment", environment.rawValue)
            writer.plainField("installation", installation.append)
            writer.field("owner_epoch", ownerEpoch)
            if environmentTrial != .none { writer.field("environment_trial", environmentTrial.rawValue) }
            if earlierOutcome != .none { writer.field("earlier_outcome", earlierOutcome.rawValue) }
        }
    }
}
