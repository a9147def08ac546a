import OpenSSL
package import Postgres
import PushModel
package import TokenServiceApps

/// When sign-outs that ended no owner epoch were: the last one of a user everywhere, of a user at an installation at which that user was
/// not signed in, and of anyone at an installation at which no user was. Such a moment ends the device credentials of that name that were
/// made until then (``DeviceCredentialClaims/issuedAt``): a sign-in that comes late does not undo the sign-out. No name reaches the
/// credentials of another user, but that of an installation, which takes a key.
///
/// A row has a digest in place of the name, so that an erasure, which leaves such a moment too, leaves no name. It is no key of
/// ``RegistryLock``: whoever finds two names of one key could end the credentials of another person.
package struct SignOutMoments: Sendable {
    /// How long a moment is kept at least, in milliseconds. A credential that is older signs in nobody.
    package static let kept = DeviceCredentialClaims.longestLife

    /// A user, an installation, or a user at an installation of an app.
    package struct Name: Hashable, Sendable {
        let app: App.ID
        let digest: [UInt8]

        package init(_ installation: InstallationKey) { self.init("installation", installation.app, installation.id.bytes) }
        package init(user: String, of app: App.ID) { self.init("user", app, Array(user.utf8)) }
        /// - Parameter user: Nil for the time without a user.
        init(_ user: String?, at installation: InstallationKey) {
            self.init("user at", installation.app, installation.id.bytes + (user.map { [1] + Array($0.utf8) } ?? [0]))
        }

        private init(_ kind: String, _ app: App.ID, _ name: [UInt8]) {
            self.app = app
            digest = Digest.sha256(Array("\(kind) \(app) ".utf8) + name)
        }

        /// Those that can end a device's credential.
        static func all(of user: String?, at installation: InstallationKey) -> [Name] {
            [Name(installation), Name(user, at: installation)] + (user.map { [Name(user: $0, of: installation.app)] } ?? [])
        }
    }

    /// UNIX microseconds, of every name that was read; 0 where there was no sign-out.
    private let moments: [Name: Int64]

    package init() { moments = [:] }

    /// - Parameter rows: The answer to ``read(_:)`` for these names.
    init(_ names: [Name], _ rows: PostgresRows) throws {
        var moments = Dictionary(names.map { ($0, Int64(0)) }) { first, _ in first }
        for (place, moment): (Int, Int64) in try rows.map({ row in (try row["place"], try row["moment"]) }) {
            guard names.indices.contains(place) else { throw CorruptRow(table: "sign_outs") }
            moments[names[place]] = moment
        }
        self.moments = moments
    }

    /// The last of them, or 0.
    var latest: Int64 { moments.values.max() ?? 0 }

    /// Refuses a credential that was made at the moment of the sign-out or before. A name that was not read ends every credential.
    /// - Throws: ``CredentialRevoked``
    func check(_ credential: DeviceCredentialClaims, against name: Name) throws {
        guard credential.issuedAt > moments[name] ?? .max else { throw CredentialRevoked() }
    }

    /// Reads them. Only after the locks: a sign-out writes under the lock of the user's name, or of the installation.
    static func read(_ names: [Name]) -> PostgresQuery {
        """
        SELECT e.place, s.moment
        FROM unnest(\(names.map(\.app))::bigint[], \(names.map(\.digest))::bytea[], \(Array(names.indices))::bigint[])
            AS e (app_id, digest, place)
        CROSS JOIN LATERAL (
            SELECT floor(extract(epoch FROM signed_out_at) * 1000000)::bigint AS moment FROM sign_outs
            WHERE app_id = e.app_id AND digest = e.digest LIMIT 1
        ) AS s
        ORDER BY e.place
        """
    }

    /// Notes that they are signed out now, and by a clock that was set back, later than before: a credential names a later moment than the
    /// one that was noted when it was made.
    package static func write(_ names: [Name]) -> PostgresQuery {
        """
        INSERT INTO sign_outs AS s (app_id, digest, signed_out_at)
        SELECT app_id, digest, clock_timestamp()
        FROM unnest(\(names.map(\.app))::bigint[], \(names.map(\.digest))::bytea[]) AS e (app_id, digest) ORDER BY app_id, digest
        ON CONFLICT (app_id, digest) DO UPDATE
            SET signed_out_at = greatest(s.signed_out_at + interval '1 microsecond', excluded.signed_out_at)
        """
    }
}
