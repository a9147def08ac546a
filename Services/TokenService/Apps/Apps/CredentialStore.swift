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
            SELECT c.environment, c.kind, c.id, CASE WHEN count(*) = count(c.refusal) THEN max(c.refusal) END AS refusal
            FROM dispatchers d JOIN credential_reports r ON r.source = d.source
            CROSS JOIN LATERAL jsonb_to_recordset(r.credentials) AS c (environment text, kind text, id text, apps jsonb, refusal text)
            WHERE d.reported_at > now() - interval '5 minutes' AND c.apps ? \(app.slug)
            GROUP BY c.environment, c.kind, c.id ORDER BY c.environment, c.id
            """
        ).map { row in
            AppCredential(environment: try row["environment"], kind: try row["kind"], id: try row["id"], refusal: try row["refusal"])
        }
    }
}

/// The last report of each dispatcher, about the credentials of every app: the consumer of reports writes it, no request does.
package struct CredentialReports {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// Replaces the same dispatcher's last report. One that says the same again writes the time alone. The first report of a dispatcher
    /// removes the dispatchers that have not reported for an hour: a dispatcher that starts anew has another name.
    package func replace(by report: CredentialReport) throws {
        let known = try session.execute("UPDATE dispatchers SET reported_at = now() WHERE source = \(report.source)")
        if known.affected == 0 {
            try session.execute("DELETE FROM dispatchers WHERE reported_at < now() - interval '1 hour'")
            try session.execute("INSERT INTO dispatchers (source) VALUES (\(report.source)) ON CONFLICT DO NOTHING")
        }
        try session.execute(
            """
            INSERT INTO credential_reports AS r (source, credentials)
            SELECT \(report.source), \(String(decoding: report.encoded(), as: UTF8.self))::text::jsonb -> 'data' -> 'credentials'
            ON CONFLICT (source) DO UPDATE SET credentials = excluded.credentials WHERE r.credentials <> excluded.credentials
            """)
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

    package var words: String { "\(kind.rawValue) \(id)" }
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
        let bundleID = properties.bundleID
        let missing = properties.environments.filter { environment in !credentials.contains { $0.environment == environment } }
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
