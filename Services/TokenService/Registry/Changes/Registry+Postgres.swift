package import Postgres
package import PushModel

extension InstallationKey {
    /// - Parameter row: A row with the columns `app_id` and `installation`.
    init(_ row: PostgresRow) throws { self.init(app: try row["app_id"], id: try row["installation"]) }
}

extension Fence {
    /// - Parameter row: A row of the view `open_fences`.
    package init(_ row: PostgresRow) throws {
        self.init(
            id: try row["id"], app: try row["app"], installation: try row["installation"], epochsBelow: try row["epochs_below"],
            at: try row.milliseconds("created_at"))
    }
}

extension InstallationProfile {
    /// - Parameter row: A row with the profile's columns of `installations`.
    package init(_ row: PostgresRow) throws {
        locale = try row["locale"]
        timeZone = try row["time_zone"]
        appVersion = try row["app_version"]
        osVersion = try row["os_version"]
        deviceModel = try row["device_model"]
        permission = try row["permission"]
        appTags = InstallationTags.appTags(in: try row["tags"])
    }
}

extension SignOutReason: PostgresEncodable, PostgresDecodable {}
extension Permission: PostgresDecodable {}
extension Purpose: PostgresEncodable, PostgresDecodable {}
extension TokenState.RetiredReason: PostgresEncodable, PostgresDecodable {}

extension DeviceToken: PostgresDecodable {
    package init(_ column: PostgresColumn) throws(PostgresError) {
        guard let token = DeviceToken(bytes: try [UInt8](column)) else { throw column.failure("holds bytes that are no token") }
        self = token
    }
}

extension RegisteredToken {
    /// - Parameter row: A row of `tokens`.
    init(_ row: PostgresRow) throws {
        self.init(token: try row["token"], environment: try row["environment"], purpose: try row["purpose"])
    }
}

extension InstallationState {
    /// - Parameters:
    ///   - row: Of `installations`.
    ///   - unpublished: Installations that have an open fence.
    init(_ row: PostgresRow, unpublished: Set<InstallationKey>) throws {
        let key = InstallationKey(app: try row["app_id"], id: try row["id"])
        let epoch: Int64 = try row["owner_epoch"]
        self.init(
            key: key, owner: try row["owner"], epoch: epoch, signedOutReason: try row["signed_out_reason"],
            throttledUntil: try row.milliseconds("throttled_until"), profile: try InstallationProfile(row),
            tags: InstallationTags.tags(in: try row["tags"]), isImported: try row["is_imported"],
            createdAt: try row.milliseconds("created_at"), registeredAt: try row.milliseconds("registered_at"),
            deregisteredAt: try row.milliseconds("deregistered_at"), staleSince: try row.milliseconds("stale_since"),
            linesCountUntil: try row.milliseconds("lines_count_until"),
            fence: unpublished.contains(key) ? .pending : epoch > 1 ? .effective : .none, isStored: true)
    }
}

extension TokenState {
    /// - Parameter row: A row of `tokens`.
    package init(_ row: PostgresRow) throws {
        let (retiredAt, state): (Int64?, String) = (try row.milliseconds("retired_at"), try row["state"])
        self.init(
            id: try row["id"], app: try row["app_id"], named: try RegisteredToken(row), installation: try row["installation"],
            registeredAt: try row.milliseconds("registered_at"),
            retired: try retiredAt.map { Retirement(at: $0, reason: try row["retired_reason"]) },
            quarantinedAt: try row.milliseconds("quarantined_at"), provenAt: try row.milliseconds("proven_at"),
            endsByAPNs: EndsByAPNs(at: try row.milliseconds("ended_by_apns_at"), times: try row["ended_by_apns_times"]),
            starts: Starts(
                since: try row.milliseconds("silent_since"), silent: try row["silent_starts"], isDoubtful: state == "doubtful"))
    }
}
