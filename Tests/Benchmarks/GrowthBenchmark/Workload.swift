import BenchmarkSupport
import Foundation
import StrictJSON
import SystemIO

/// The same requests at each size, one after the other, so that a statement has the same work each time: registrations, sign-outs, sends,
/// outcomes, readers and operators.
final class Workload {
    private static let rounds = 20
    private static let payload = #"{"aps":{"alert":"hello"}}"#

    private let database: Database
    private let port: Int
    private let keys: [String: String]
    /// The large app's.
    let webhook: String
    /// The service closes one that is idle, as between two runs.
    private var connection: HTTPConnection
    /// So that no round meets an installation of another one.
    private var fresh = 0
    private var used = 1000

    init(_ database: Database, port: Int, keys: [String: String]) throws {
        self.database = database
        self.keys = keys
        self.port = port
        connection = try Self.connect(port)
        try database.psql("UPDATE apps SET event_stream = '{notifications,installations}'")
        let made = try Self.call(
            connection, "POST", "/v1/apps/\(StoredRows.app)/webhooks", keys[StoredRows.app] ?? "",
            #"{"url":"http://127.0.0.1:9/","events":["notification.*"]}"#)
        webhook = made?["id"]?.stringValue ?? ""
    }

    private struct Stored {
        let id: String
        let user: String
        let token: String
    }

    private static func connect(_ port: Int) throws -> HTTPConnection {
        try HTTPConnection(to: LoadGenerator(host: "127.0.0.1", port: port, connections: 1).address)
    }

    func run(_ rows: StoredRows) throws {
        connection = try Self.connect(port)
        let start = try database.psql("SELECT first_id_at(now())").trimmingCharacters(in: .whitespacesAndNewlines)
        let stored = try sample(6 * Self.rounds)
        for round in 0..<Self.rounds {
            let own = Array(stored[(6 * round)..<(6 * round + 6)])
            try register(own)
            try read(own[0])
            try send(own[3], own[4])
            try signOut(own[1], own[2])
        }
        for _ in 0..<4 {
            try sendToMany(rows)
            try readLarge(rows)
            try endLarge(rows)
            try operate(stored[3].user)
        }
        try wait("every notification has its outcomes", database) {
            """
            SELECT (NOT EXISTS (SELECT FROM notifications WHERE id >= '\(start)' AND completed_at IS NULL)
                AND NOT EXISTS (SELECT FROM jobs WHERE notification >= '\(start)' AND published_at IS NULL))::int
            """
        }
    }

    // MARK: What callers do

    /// A new one, one that registers again, and a token that moves to a new installation of another user.
    private func register(_ own: [Stored]) throws {
        for _ in 0..<2 {
            fresh += 1
            try put("new-\(fresh)", uuid(fresh), token: "f" + padded(fresh))
        }
        try put(own[0].user, own[0].id, token: own[0].token)
        fresh += 1
        try put("new-\(fresh)", uuid(fresh), token: own[5].token)
    }

    private func signOut(_ one: Stored, _ user: Stored) throws {
        try call("POST", "installations/\(one.id)/logout")
        try call("POST", "users/\(user.user)/logout")
    }

    private func read(_ own: Stored) throws {
        for path in [
            "installations/\(own.id)", "installations/\(own.id)/history", "users/\(own.user)/installations", "installations?limit=50",
            "installations?tag=rare&limit=50", "installations?tag=common&limit=50", "notifications?limit=50",
            "notifications?user=\(own.user)&limit=50", "activity",
        ] { try call("GET", path) }
        for to in [#"{"user":"\#(own.user)"}"#, #"{"tags":"common"}"#, #"{"all":true}"#] {
            try call("POST", "notifications/validate", #"{"to":\#(to),"payload":\#(Self.payload)}"#)
        }
    }

    private func send(_ one: Stored, _ other: Stored) throws {
        let id = try post(#"{"user":"\#(one.user)"}"#)
        _ = try post(#"{"installation":"\#(other.id)"}"#)
        _ = try post(#"{"users":["\#(one.user)","\#(other.user)"]}"#)
        for path in ["", "/deliveries", "/why?user=\(one.user)"] { try call("GET", "notifications/\(id)\(path)") }
        let later = Date(timeIntervalSinceNow: 3600).formatted(.iso8601)
        let scheduled = try post(#"{"user":"\#(other.user)"}"#, more: #","not_before":"\#(later)""#)
        try call("DELETE", "notifications/\(scheduled)")
    }

    private func sendToMany(_ rows: StoredRows) throws {
        _ = try post(#"{"tags":"rare AND common"}"#)
        _ = try post(#"{"all":true}"#, app: StoredRows.smallApp)
    }

    private func readLarge(_ rows: StoredRows) throws {
        for path in ["", "/deliveries?limit=100", "/deliveries?state=failed&limit=100"] {
            try call("GET", "notifications/\(rows.large)\(path)")
        }
    }

    /// One more delivery of the large notification: its outcome is the last one.
    private func endLarge(_ rows: StoredRows) throws {
        try database.psql(
            """
            BEGIN;
            UPDATE notifications SET total = total + 1, pending = 1, jobs = jobs + 1, state = 'sending', completed_at = NULL
                WHERE id = '\(rows.large)';
            INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
            SELECT n.id, (SELECT max(number) + 1 FROM jobs WHERE notification = n.id), n.app_id, 'bulk', '', now(), int8send(t.id), now()
            FROM notifications n, LATERAL (SELECT id FROM tokens WHERE app_id = n.app_id AND state = 'active' ORDER BY id LIMIT 1) AS t
            WHERE n.id = '\(rows.large)';
            COMMIT
            """)
        try wait("the large notification has its last outcome", database) {
            "SELECT count(*) FROM notifications WHERE id = '\(rows.large)' AND completed_at IS NOT NULL"
        }
    }

    private func operate(_ user: String) throws {
        try call("POST", "users/\(user)/export")
        for query in ["", "?state=failed", "?state=pending"] { try call("GET", "webhooks/\(webhook)/messages\(query)") }
        try call("POST", "webhooks/\(webhook)/redeliver", #"{"failed":true}"#)
        let hold = try call("POST", "holds", #"{"lane":"soon","reason":"growth"}"#)
        try call("DELETE", "holds/\(hold?["id"]?.stringValue ?? "")")
    }

    // MARK: Requests

    private func put(_ user: String, _ id: String, token: String) throws {
        try call(
            "PUT", "installations/\(id)",
            #"{"user":"\#(user)","tokens":[{"token":"\#(token)"}],"locale":"de_AT","time_zone":"Europe/Vienna","app_version":"4.11.0"}"#)
    }

    /// - Returns: the notification's id.
    private func post(_ to: String, app: String = StoredRows.app, more: String = "") throws -> String {
        let made = try call("POST", "notifications", #"{"to":\#(to),"payload":\#(Self.payload)\#(more)}"#, app: app)
        return made?["id"]?.stringValue ?? ""
    }

    @discardableResult
    private func call(_ method: String, _ path: String, _ body: String? = nil, app: String = StoredRows.app) throws -> JSONValue? {
        try Self.call(connection, method, "/v1/apps/\(app)/\(path)", keys[app] ?? "", body)
    }

    private static let attempts = 30

    private static func call(
        _ connection: HTTPConnection, _ method: String, _ path: String, _ key: String, _ body: String?
    ) throws -> JSONValue? {
        let request = HTTPRequest(method, path, key: key, body: body ?? (method == "POST" ? "" : nil))
        var answer = try connection.call(request)
        // What a statement needs may be on the disk still, and it has two seconds.
        for _ in 1...attempts where answer.status == 503 {
            Thread.sleep(forTimeInterval: 1)
            answer = try connection.call(request)
        }
        guard (200..<300).contains(answer.status) else { throw answer.refusal(of: "\(method) \(path)") }
        return answer.body.first == UInt8(ascii: "{") ? try JSONValue.parse(answer.body, maximumBytes: 8 << 20) : nil
    }

    /// Installations that no request has touched yet, in the order in which they were stored.
    private func sample(_ count: Int) throws -> [Stored] {
        let lines = try database.psql(
            """
            SELECT id, owner, encode(sha256(uuid_send(id)), 'hex')
            FROM (SELECT md5('i' || n)::uuid AS id, n FROM generate_series(\(used), \(used + 2 * count), 2) AS n) AS wanted
            JOIN installations USING (id) WHERE app_id = (SELECT id FROM apps WHERE slug = '\(StoredRows.app)') ORDER BY n LIMIT \(count)
            """
        ).split(separator: "\n")
        used += 2 * count
        let stored = lines.map { line in
            let parts = line.split(separator: "|").map(String.init)
            return Stored(id: parts[0], user: parts[1], token: parts[2])
        }
        guard stored.count == count else { throw BenchmarkError("\(stored.count) of \(count) installations are there") }
        return stored
    }

    private func uuid(_ number: Int) -> String { "10000000-0000-4000-8000-" + String(padded(number).suffix(12)) }
    private func padded(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 63 - digits.count) + digits
    }
}
