import Postgres
import PushModel
import StrictJSON
import TokenServiceApps
import TokenServiceRegistry

extension RunningService {
    func app(_ slug: String = "shop") async throws -> App {
        guard let slug = AppSlug(slug), let app = try await AppStore(pool: pool).app(slug) else {
            throw Missing(description: "no app \(slug)")
        }
        return app
    }

    /// History as the engine writes it.
    func append(_ entries: [HistoryEntry]) async throws {
        _ = try await pool.session { session in try session.execute(HistoryStore.append(entries)) }
    }

    /// Many installations of an app at once, numbered from 1, each with one active token; `change` then says what is special.
    func fill(_ count: Int, app: App, owner: String? = nil, tag: String? = nil) async throws {
        try await execute(
            """
            WITH made AS (
                INSERT INTO installations (app_id, id, owner, tags, registered_at, created_at)
                SELECT \(app.id), ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, \(owner)::text,
                    array_remove(ARRAY[\(tag)::text], NULL), now(), now()
                FROM generate_series(1, \(Int32(count))::int) AS n RETURNING id, ordinal
            )
            INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at)
            SELECT \(app.id), 'production', 'alert', sha256(uuid_send(id)), id, ordinal, now() FROM made
            """)
    }
}

extension APITestClient {
    /// Every page of a list, one inner array per page.
    func pages(_ path: String, _ query: String = "") async throws -> [[String]] {
        var pages: [[String]] = []
        var cursor: String?
        repeat {
            let words = [query, cursor.map { "cursor=\($0)" } ?? ""].filter { !$0.isEmpty }.joined(separator: "&")
            let answer = try await get("\(path)?\(words)")
            guard answer.status == 200 else { throw Refused(status: answer.status, code: answer.code) }
            pages.append(answer.json["installations"]?.arrayValue?.compactMap { $0.text("id") } ?? [])
            cursor = answer.json.text("next_cursor")
        } while cursor != nil
        return pages
    }

    struct Refused: Error {
        let status: Int
        let code: String?
    }
}

extension JSONValue {
    /// Its text without blanks; fields keep their order.
    var written: String {
        var writer = JSONWriter()
        writer.value(self)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
