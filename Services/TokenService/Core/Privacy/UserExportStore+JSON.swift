import Postgres
import PushModel
import StrictJSON

/// Rows as JSON objects. Tokens in full: they are the person's own.
extension UserExportStore {
    static func object(_ write: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.object(write)
        return writer.bytes
    }

    static func installation(_ record: InstallationRecord, tokens: [[UInt8]]) -> [UInt8] {
        object { object in
            object.field("id", record.id.description)
            object.field("owner_epoch", record.ownerEpoch)
            object.array("tokens") { array in
                for token in tokens { array.raw(token) }
            }
            object.time("created_at", record.createdAt)
            object.time("registered_at", record.registeredAt)
            object.time("throttled_until", record.throttledUntil)
            object.field("locale", record.profile.locale)
            object.field("time_zone", record.profile.timeZone)
            object.field("app_version", record.profile.appVersion)
            object.field("os_version", record.profile.osVersion)
            object.field("device_model", record.profile.deviceModel)
            object.field("tags", record.profile.tags)
        }
    }

    static func token(_ row: PostgresRow) throws -> [UInt8] {
        guard let token = DeviceToken(bytes: try row.bytes(1)) else { throw CorruptRow(table: "tokens") }
        let (environment, purpose, state) = (try row.text(2), try row.text(3), try row.text(4))
        let (registeredAt, retiredAt) = (try row.timestampMilliseconds(5), try row.optionalTimestampMilliseconds(6))
        let (reason, provenAt) = (try row.optionalText(7), try row.optionalTimestampMilliseconds(8))
        return object { object in
            object.field("token", token.hex)
            object.field("environment", environment)
            object.field("purpose", purpose)
            object.field("state", state)
            object.time("registered_at", registeredAt)
            object.time("retired_at", retiredAt)
            object.field("retired_reason", reason)
            object.time("proven_at", provenAt)
        }
    }

    static func historyEntry(_ row: PostgresRow) throws -> [UInt8] {
        let (installation, at, event) = (try row.id(1), try row.timestampMilliseconds(2), try row.text(3))
        let (epoch, owner, hint) = (try row.optionalInt64(4), try row.optionalText(5), try row.optionalText(6))
        let (environment, purpose, other) = (try row.optionalText(7), try row.optionalText(8), try row.optionalID(9))
        let (status, reason) = (try row.optionalInt32(10), try row.optionalText(11))
        let (apnsTimestamp, delivery) = (try row.optionalTimestampMilliseconds(12), try row.optionalID(13))
        return object { object in
            object.field("installation", installation.description)
            object.time("at", at)
            object.field("event", event)
            object.field("owner_epoch", epoch)
            object.field("user", owner)
            object.field("token_hint", hint)
            object.field("environment", environment)
            object.field("purpose", purpose)
            object.field("other_installation", other?.description)
            object.field("status", status)
            object.field("reason", reason)
            object.time("apns_timestamp", apnsTimestamp)
            object.field("delivery", delivery?.description)
        }
    }

    /// Of a list of users, only the one who asks.
    static func notification(_ row: PostgresRow, asked: String) throws -> [UInt8] {
        let (id, user, installation) = (try row.id(0), try row.optionalText(1), try row.optionalID(2))
        let (state, lane, type, topic) = (try row.text(3), try row.text(4), try row.text(5), try row.text(6))
        let (collapse, payload) = (try row.optionalText(7), try row.bytes(8))
        let (accepted, expires) = (try row.timestampMilliseconds(9), try row.timestampMilliseconds(10))
        let (completed, isListed) = (try row.optionalTimestampMilliseconds(11), try row.bool(12))
        return object { object in
            object.field("id", id.description)
            object.object("to") { to in
                to.field("user", user)
                if isListed { to.field("users", [asked]) }
                to.field("installation", installation?.description)
            }
            object.field("state", state)
            object.field("lane", lane)
            object.field("push_type", type)
            object.field("topic", topic)
            object.field("collapse_id", collapse)
            object.time("accepted_at", accepted)
            object.time("expires_at", expires)
            object.time("completed_at", completed)
            // Checked when it was accepted, and kept as it came.
            object.field("payload", raw: payload)
        }
    }

    static func delivery(_ row: PostgresRow) throws -> [UInt8] {
        let (id, installation, environment) = (try row.id(1), try row.id(2), try row.text(3))
        let (outcome, status, reason) = (try row.optionalText(4), try row.optionalInt32(5), try row.optionalText(6))
        let (attempts, updated) = (try row.int32(7), try row.timestampMilliseconds(8))
        return object { object in
            object.field("id", id.description)
            object.field("installation", installation.description)
            object.field("environment", environment)
            object.field("state", outcome ?? "pending")
            object.field("status", status)
            object.field("reason", reason)
            object.field("attempts", attempts)
            object.time("updated_at", updated)
        }
    }
}
