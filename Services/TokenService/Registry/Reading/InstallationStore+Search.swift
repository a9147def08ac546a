import Postgres
package import PushModel
import StrictJSON
import TokenServiceApps
import TokenServiceKit

/// The present and former holders of a token.
package struct TokenSearch: Sendable {
    /// The installations that the token belongs to now, active or retired.
    package var records: [InstallationRecord]
    /// Newest first, at most 100.
    package var former: [FormerHolder]
}

/// A former installation of a token, and when the token left it.
package struct FormerHolder: Equatable, Sendable {
    package enum Reason: String, CaseIterable, Sendable, PostgresDecodable { case moved, deregistered }

    package var installation: PushID
    package var environment: String
    package var purpose: String
    /// UNIX milliseconds.
    package var until: Int64
    package var reason: Reason
    /// The installation that it moved to, if that is known.
    package var movedTo: PushID?
}

extension InstallationStore {
    /// Finds who has and had the token, in one round trip.
    package func search(_ token: DeviceToken, environment: APNsEnvironment?) throws -> TokenSearch {
        let results = try session.pipeline([holders(of: token, environment), formerHolders(of: token, environment)])
        let former = try results[1].map { row in
            FormerHolder(
                installation: try row["installation"], environment: try row["environment"], purpose: try row["purpose"],
                until: try row.milliseconds("until"), reason: try row["reason"], movedTo: try row["moved_to"])
        }
        return TokenSearch(records: try Self.records(results[0]), former: former)
    }

    private func holders(of token: DeviceToken, _ environment: APNsEnvironment?) -> PostgresQuery {
        """
        SELECT * FROM installation_records
        WHERE app_id = \(app.id) AND id = ANY (ARRAY(
            SELECT installation FROM tokens
            WHERE app_id = \(app.id) AND token = \(token.bytes) AND environment = coalesce(\(environment), environment)))
        ORDER BY id, state NULLS FIRST, token_registered_at DESC, token_id
        """
    }

    private func formerHolders(of token: DeviceToken, _ environment: APNsEnvironment?) -> PostgresQuery {
        """
        WITH named AS (
            SELECT id, installation, environment, purpose FROM tokens
            WHERE app_id = \(app.id) AND token = \(token.bytes) AND environment = coalesce(\(environment), environment)
        )
        SELECT i.id AS installation, n.environment, n.purpose, i.deregistered_at AS until, 'deregistered' AS reason, NULL::uuid AS moved_to
        FROM named n JOIN installations i ON i.app_id = \(app.id) AND i.id = n.installation AND i.deregistered_at IS NOT NULL
        UNION ALL
        SELECT h.installation, n.environment, n.purpose, h.at, 'moved', h.other_installation
        FROM named n CROSS JOIN LATERAL (
            SELECT * FROM installation_history
            WHERE token_id = n.id AND event = 'token_moved_away' ORDER BY at DESC LIMIT 100
        ) AS h
        ORDER BY until DESC LIMIT 100
        """
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
