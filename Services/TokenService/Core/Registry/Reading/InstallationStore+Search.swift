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
    package enum Reason: String, CaseIterable, Sendable { case moved, deregistered }

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

extension TokenSearch {
    static let named: [JSONSchema.Field] = [
        .required("token", .deviceToken), .omissible("environment", .environment, "Where it is left out: both."),
    ]
    static let request = JSONSchema.request("NamedToken", named)
    static let hints = response(InstallationRecord.hints)
    static let full = response(InstallationRecord.full)

    private static func response(_ record: ResponseSchema<OfApp<InstallationRecord>>) -> ResponseSchema<OfApp<TokenSearch>> {
        .object(
            "TokenHolders",
            [
                .required("installations", .array(record)) { found in found.value.records.map { OfApp(app: found.app, value: $0) } },
                .required("former_holders", .array(FormerHolder.response)) { $0.value.former },
            ])
    }
}

extension FormerHolder {
    static let response = ResponseSchema<FormerHolder>.object(
        "FormerHolder",
        [
            .required("id", .uuid, "The installation's.") { $0.installation },
            .required("environment", .text(.environment)) { $0.environment },
            .required("purpose", .text(.purpose)) { $0.purpose },
            .required("reason", .word) { $0.reason },
            .required("until", .time) { $0.until },
            .optional("moved_to", .uuid, "Where it went, as far as is known.") { $0.movedTo },
        ])
}
