import Postgres
package import PushModel
import StrictJSON

/// Who holds a token, and who held it.
package struct TokenSearch: Sendable {
    /// That the token belongs to now, alive or retired.
    package var records: [InstallationRecord]
    /// Newest first, at most 100.
    package var former: [FormerHolder]
}

/// An installation that a token belonged to, and until when.
package struct FormerHolder: Equatable, Sendable {
    package enum Reason: String, Sendable { case moved, deregistered }

    package var installation: PushID
    package var environment: String
    package var purpose: String
    /// UNIX milliseconds.
    package var until: Int64
    package var reason: Reason
    /// Where it moved to, as far as is known.
    package var movedTo: PushID?
}

extension InstallationStore {
    /// In one round trip.
    package func search(_ token: DeviceToken, environment: APNsEnvironment?) throws -> TokenSearch {
        let named: [PostgresValue] = [.int64(app.id), .bytes(token.bytes), .optionalText(environment?.rawValue)]
        let results = try session.pipeline([(Self.searchRecords, named), (Self.formerHolders, named)])
        let former = try results[1].map { row in
            guard let reason = FormerHolder.Reason(rawValue: try row.text(4)) else { throw CorruptRow(table: "installation_history") }
            return FormerHolder(
                installation: try row.id(0), environment: try row.text(1), purpose: try row.text(2),
                until: try row.timestampMilliseconds(3), reason: reason, movedTo: try row.optionalID(5))
        }
        return TokenSearch(records: try Self.records(results[0]), former: former)
    }
}

extension FormerHolder {
    func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("id", installation.description)
            object.field("environment", environment)
            object.field("purpose", purpose)
            object.field("reason", reason.rawValue)
            object.time("until", until)
            object.field("moved_to", movedTo?.description)
        }
    }
}
