package import Postgres
package import PushModel

/// An app's credentials, as the dispatchers last reported them.
package struct CredentialStore {
    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// By environment. A dispatcher reports every minute; after five minutes without a report it is gone. While
    /// at least one dispatcher still sends with a credential, it has no refusal here, although APNs refuses it to another dispatcher.
    package func credentials() throws -> [AppCredential] {
        try session.execute(
            """
            SELECT environment, kind, credential, CASE WHEN count(*) = count(refusal) THEN max(refusal) END AS refusal
            FROM credential_reports WHERE app = \(app.slug) AND reported_at > now() - interval '5 minutes'
            GROUP BY environment, kind, credential ORDER BY environment, credential
            """
        ).map { row in
            AppCredential(
                environment: try row["environment"], kind: try row["kind"], id: try row["credential"], refusal: try row["refusal"])
        }
    }
}

/// The last report of each dispatcher, about the credentials of every app: the consumer of reports writes it, no request does.
package struct CredentialReports {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// Replaces the same dispatcher's last report, and removes the reports of dispatchers that have not reported for an hour.
    package func replace(by report: CredentialReport) throws {
        let rows = report.credentials.flatMap { credential in credential.apps.map { (app: $0.text, credential) } }
        _ = try session.pipeline([
            "DELETE FROM credential_reports WHERE source = \(report.source) OR reported_at < now() - interval '1 hour'",
            """
            INSERT INTO credential_reports (source, app, environment, kind, credential, refusal)
            SELECT \(report.source), * FROM unnest(\(rows.map(\.app))::text[], \(rows.map(\.1.environment.rawValue))::text[],
                \(rows.map(\.1.kind.rawValue))::text[], \(rows.map(\.1.id))::text[], \(rows.map(\.1.refusal))::text[])
            ON CONFLICT DO NOTHING
            """,
        ])
    }
}

extension CredentialReport.Credential.Kind: PostgresDecodable {}

/// A credential that at least one dispatcher has for an app.
package struct AppCredential: Equatable, Sendable {
    package var environment: APNsEnvironment
    package var kind: CredentialReport.Credential.Kind
    package var id: String
    /// APNs' reason, while APNs refuses it to every dispatcher that has it.
    package var refusal: String?

    var words: String { "\(kind.rawValue) \(id)" }
}

/// What keeps an app, or may keep it, from sending.
package struct AppWarning: Equatable, Sendable {
    package enum Code: String, CaseIterable, Sendable {
        case noCredential = "no_credential"
        case doubtfulBundleID = "doubtful_bundle_id"
    }

    package var code: Code
    /// For people.
    package var detail: String
}

extension App {
    package func warnings(among credentials: [AppCredential]) -> [AppWarning] {
        let missing = environments.filter { environment in !credentials.contains { $0.environment == environment } }
        let unsent = missing.map { environment in
            AppWarning(
                code: .noCredential,
                detail:
                    "no dispatcher has reported a credential for \(slug.text) in \(environment.rawValue): nothing is sent there until the "
                    + "operator adds one to the dispatchers' APNS_CREDENTIALS_FILE")
        }
        let doubt = BundleID.doubt(about: bundleID).map { AppWarning(code: .doubtfulBundleID, detail: "bundle_id \(bundleID): \($0)") }
        return unsent + [doubt].compactMap { $0 }
    }
}
