package import Postgres
import PushModel

/// Counts what a target would reach. It reads the registry as it is now; a scheduled notification may find another one.
package struct AudienceCount {
    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    package func estimate(_ request: NotificationRequest) throws -> AudienceEstimate {
        let timing = request.timing
        let place: [PostgresValue] = [
            .int64(app.id), .text(request.pushType.purpose.rawValue), .bool(timing.isUrgent),
            .optionalTimestamp(milliseconds: timing.notBefore), .optionalText(timing.localTime?.description),
        ]
        switch request.target {
        case .user(let name): return try estimate(Self.users, place + [.textArray([name])])
        case .users(let names): return try estimate(Self.users, place + [.textArray(names)])
        case .installation(let id): return try estimate(Self.installations, place + [.ids([id])])
        case .installations(let ids): return try estimate(Self.installations, place + [.ids(ids)])
        case .tokens(let tokens): return try estimate(Self.tokens, place + [.bytesArray(tokens.map(\.bytes))])
        case .all: return try estimate(Self.everyone, place)
        case .tags(let expression):
            let query = PostgresValue.text(expression.searchText)
            guard let needed = expression.neededTags else { return try estimate(Self.untagged, place + [query]) }
            return try estimate(Self.tagged, place + [query, .textArray(needed)])
        }
    }

    /// Rows of reason, devices, tokens; the reason `more` says that not everything was looked at.
    private func estimate(_ statement: PostgresStatement, _ parameters: [PostgresValue]) throws -> AudienceEstimate {
        var estimate = AudienceEstimate(devices: [:], deliveries: 0, isLowerBound: false)
        var counted = 0
        for row in try session.execute(statement, parameters) {
            let name = try row.text(0)
            guard name != "more" else {
                estimate.isLowerBound = true
                continue
            }
            guard let reason = AudienceEstimate.Reason(rawValue: name) else { throw CorruptRow(table: "installations") }
            let devices = Int(try row.int64(1))
            estimate.devices[reason] = devices
            estimate.deliveries += Int(try row.int64(2))
            counted += devices
        }
        if counted >= AudienceEstimate.maximumDevices { estimate.isLowerBound = true }
        return estimate
    }

    /// How many background pushes were accepted within the last hour for the user or the installation that the request names alone.
    /// Zero for every other target: there it would cost more than it tells.
    package func recentBackgroundPushes(_ target: NotificationRequest.Target, now: Int64) throws -> Int {
        let since = PushID(high: UInt64(max(0, now - 3_600_000)) << 16, low: 0)
        switch target {
        case .user(let name):
            return Int(try session.execute(Self.recentOfUser, [.int64(app.id), .text(name), .id(since)]).only().int64(0))
        case .installation(let id):
            return Int(try session.execute(Self.recentOfInstallation, [.int64(app.id), .id(id), .id(since)]).only().int64(0))
        case .users, .installations, .tokens, .tags, .all: return 0
        }
    }
}
