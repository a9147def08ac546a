import BenchmarkSupport
import Foundation
import OpenSSL
import PushModel
import StrictJSON

/// The audience of the benchmark: an app with a million devices, two for each user, and an app with few devices that gets single sends. The
/// two apps distinguish the arrivals. Both share a credential, and with it the connections to APNs.
struct Audience {
    static let bulkApp = "bench"
    static let nowApp = "bench-now"
    static let nowDevices = 20_000
    static let payload =
        #"{"aps":{"alert":{"title":"Your order is packed","body":"It leaves tonight, and will be with you tomorrow morning."}}}"#

    let devices: Int

    func fill(_ platform: PlatformUnderTest) throws {
        for (app, count) in [(Self.bulkApp, devices), (Self.nowApp, Self.nowDevices)] {
            let id = try platform.database.integer("SELECT id FROM apps WHERE slug = '\(app)'")
            try platform.database.psql(Self.fill(app: id, slug: app, count))
        }
        try platform.database.settle()
    }

    /// Rows like those of registrations. Ids and tokens are digests, because real ones have no order either.
    private static func fill(app: Int, slug: String, _ count: Int) -> String {
        """
        INSERT INTO installations (app_id, id, owner, locale, time_zone, created_at, registered_at)
        SELECT \(app), encode(substr(sha256(convert_to('\(slug) ' || n, 'UTF8')), 1, 16), 'hex')::uuid, 'user-' || n / 2, 'de_AT',
            'Europe/Vienna', now(), now()
        FROM generate_series(0, \(count - 1)) AS n;
        INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at, proven_at)
        SELECT \(app), 'production', 'alert', sha256(convert_to('\(slug) token ' || n, 'UTF8')), i.id, i.ordinal, now(), now()
        FROM generate_series(0, \(count - 1)) AS n
        JOIN installations i ON i.app_id = \(app)
            AND i.id = encode(substr(sha256(convert_to('\(slug) ' || n, 'UTF8')), 1, 16), 'hex')::uuid
        ORDER BY n;
        """
    }

    /// The app with single sends, whose arrivals the benchmark counts separately.
    static func nowToken(_ number: Int) -> String { hexText(Digest.sha256(Array("\(nowApp) token \(number)".utf8))) }
    static func nowInstallation(_ number: Int) -> String {
        PushID(bytes: Digest.sha256(Array("\(nowApp) \(number)".utf8)).prefix(16))?.description ?? ""
    }

    /// A notification to one user with two devices.
    func toUser(_ number: Int, key: String) -> HTTPRequest {
        HTTPRequest(
            "POST", "/v1/apps/\(Self.bulkApp)/notifications", key: key,
            body: #"{"to":{"user":"user-\#(number % (devices / 2))"},"payload":\#(Self.payload)}"#)
    }

    /// The most that one request takes.
    static let batch = 1000

    /// A batch of notifications to one user each, who has two devices.
    func toUsers(_ first: Int, key: String) -> HTTPRequest {
        let items = (first..<first + Self.batch).map { number in
            #"{"notification":{"to":{"user":"user-\#(number % (devices / 2))"},"payload":\#(Self.payload)}}"#
        }
        return HTTPRequest(
            "POST", "/v1/apps/\(Self.bulkApp)/notifications/batch", key: key,
            body: #"{"notifications":[\#(items.joined(separator: ","))]}"#)
    }

    static func toInstallation(_ number: Int, key: String) -> HTTPRequest {
        HTTPRequest(
            "POST", "/v1/apps/\(nowApp)/notifications", key: key,
            body: #"{"to":{"installation":"\#(nowInstallation(number % nowDevices))"},"payload":\#(payload)}"#)
    }

    /// Sends to everybody.
    /// - Returns: the notification's id.
    func sendToAll(on platform: PlatformUnderTest) throws -> String {
        let answer = try HTTPConnection(to: platform.address).call(
            HTTPRequest(
                "POST", "/v1/apps/\(Self.bulkApp)/notifications", key: platform.key(of: Self.bulkApp),
                body: #"{"to":{"all":true},"payload":\#(Self.payload)}"#))
        guard answer.status == 202, let id = try JSONValue.parse(answer.body, maximumBytes: 1 << 20)["id"]?.stringValue else {
            throw answer.refusal(of: "a notification to all")
        }
        return id
    }

    /// Waits until all of its jobs are confirmed and that is written down.
    /// - Returns: seconds from the moment of acceptance to the last page's confirms.
    func waitUntilExpanded(_ notification: String, on platform: PlatformUnderTest) throws -> Double {
        try platform.wait("everything is expanded", seconds: 600) {
            let text = try platform.database.psql(
                """
                SELECT CASE WHEN f.ended_at IS NOT NULL AND NOT EXISTS (SELECT FROM jobs WHERE published_at IS NULL) THEN
                    extract(epoch FROM (SELECT max(published_at) FROM jobs WHERE notification = n.id) - n.accepted_at) END
                FROM notifications n JOIN fan_outs f ON f.notification = n.id WHERE n.id = '\(notification)'
                """)
            guard let seconds = Double(text.trimmingCharacters(in: .whitespacesAndNewlines)) else { return nil }
            let total = try platform.database.integer("SELECT total FROM notifications WHERE id = '\(notification)'")
            guard total == devices else { throw BenchmarkError("the audience had \(total) of \(devices) devices") }
            return seconds
        }
    }

    /// Waits until every delivery has its outcome.
    /// - Returns: when the last one was applied, UNIX seconds.
    func waitUntilCompleted(_ notification: String, on platform: PlatformUnderTest) throws -> Double {
        try platform.wait("all outcomes are applied", seconds: 900, pause: 0.25) {
            let text = try platform.database.psql(
                "SELECT extract(epoch FROM completed_at) FROM notifications WHERE id = '\(notification)' AND state = 'completed'")
            return Double(text.trimmingCharacters(in: .whitespacesAndNewlines))
        }
    }
}
