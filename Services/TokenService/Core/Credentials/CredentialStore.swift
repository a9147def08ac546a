package import Postgres
package import PushModel

/// What the dispatchers said last of their credentials.
package struct CredentialStore {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// Takes the place of what the same dispatcher said before. What a dispatcher said that is gone is removed with it.
    package func replace(by report: CredentialReport) throws {
        let rows = report.credentials.flatMap { credential in credential.apps.map { (app: $0.text, credential) } }
        _ = try session.pipeline([
            (Self.remove, [.text(report.source)]),
            (
                Self.insert,
                [
                    .text(report.source), .textArray(rows.map(\.app)), .textArray(rows.map(\.1.environment.rawValue)),
                    .textArray(rows.map(\.1.kind.rawValue)), .textArray(rows.map(\.1.id)), .optionalTextArray(rows.map(\.1.refusal)),
                ]
            ),
        ])
    }

    /// What serves an app, by environment.
    package func credentials(of app: AppSlug) throws -> [AppCredential] {
        try session.execute(Self.ofApp, [.text(app.text)]).map { row in
            guard let environment = APNsEnvironment(rawValue: try row.text(0)),
                let kind = CredentialReport.Credential.Kind(rawValue: try row.text(1))
            else { throw CorruptRow(table: "credential_reports") }
            return AppCredential(environment: environment, kind: kind, id: try row.text(2), refusal: try row.optionalText(3))
        }
    }

    private static let remove: PostgresStatement =
        "DELETE FROM credential_reports WHERE source = $1 OR reported_at < now() - interval '1 hour'"
    private static let insert: PostgresStatement = """
        INSERT INTO credential_reports (source, app, environment, kind, credential, refusal)
        SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) ON CONFLICT DO NOTHING
        """
    /// A dispatcher reports every minute. One that has not for five is gone. One that still sends by a credential counts more than another
    /// one that APNs refuses it to.
    private static let ofApp: PostgresStatement = """
        SELECT environment, kind, credential, CASE WHEN count(*) = count(refusal) THEN max(refusal) END FROM credential_reports
        WHERE app = $1 AND reported_at > now() - interval '5 minutes' GROUP BY environment, kind, credential ORDER BY environment, credential
        """
}

/// A credential that some dispatcher has for an app.
package struct AppCredential: Equatable, Sendable {
    package var environment: APNsEnvironment
    package var kind: CredentialReport.Credential.Kind
    package var id: String
    /// APNs' reason, while APNs refuses it to every dispatcher that has it.
    package var refusal: String?

    var words: String { "\(kind.rawValue) \(id)" }
}

extension App {
    /// A sentence for each environment of the app that no dispatcher has a credential for.
    package func missing(among credentials: [AppCredential]) -> [String] {
        environments.filter { environment in !credentials.contains { $0.environment == environment } }.map { environment in
            "no dispatcher has reported a credential for \(slug.text) in \(environment.rawValue): nothing is sent there until the operator "
                + "adds one to the dispatchers' APNS_CREDENTIALS_FILE"
        }
    }
}
