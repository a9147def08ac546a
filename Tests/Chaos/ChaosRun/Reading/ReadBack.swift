import ChaosLedger
import Foundation
import PushAPI
import PushModel
import StrictJSON

/// Reads the state of everything from the API at the end and writes it to the ledger unchanged.
struct ReadBack: Sendable {
    private static let readers = 24

    let client: Client
    let service: String
    let ledgers: Ledgers
    let onProgress: @Sendable (Int) -> Void

    /// Every existing notification, even if no client got its id, and every installation that a request named.
    func run(installations: [(app: Int, id: PushID)]) async throws {
        for app in client.apps.indices {
            var cursor: String?
            repeat {
                let page = try await get(app, "notifications?limit=1000" + (cursor.map { "&cursor=\($0)" } ?? ""))
                let ids = (page["notifications"]?.arrayValue ?? []).compactMap { $0["id"]?.stringValue }
                try await each(ids) { try await readNotification($0, app) }
                cursor = page["next_cursor"]?.stringValue
            } while cursor != nil
        }
        try await each(installations) { try await readInstallation($0.id, $0.app) }
    }

    private func each<Item: Sendable>(_ items: [Item], _ read: @escaping @Sendable (Item) async throws -> [ReportedRecord]) async throws {
        try await withThrowingTaskGroup(of: Int.self) { group in
            var begun = 0
            func begin() {
                guard begun < items.count else { return }
                // A few in a row, so that a task has enough work.
                let part = items[begun..<min(begun + 16, items.count)]
                begun = part.endIndex
                group.addTask {
                    for item in part { ledgers.note(try await read(item)) }
                    return part.count
                }
            }
            for _ in 0..<Self.readers { begin() }
            while let count = try await group.next() {
                onProgress(count)
                begin()
            }
        }
    }

    private func get(_ app: Int, _ path: String) async throws -> JSONValue {
        guard let answer = try await answer(app, path) else { throw ChaosError("the API answers 404 to a list") }
        return answer
    }

    /// - Returns: nil for 404.
    private func answer(_ app: Int, _ path: String) async throws -> JSONValue? {
        var refusals = 0
        while true {
            let call = PushAPI.Call(.get, "/v1/apps/\(client.apps[app].slug)/\(path)")
            let answer = await client.caller.ask(call, at: service, key: client.apps[app].key)
            if answer?.status == 404 { return nil }
            if answer?.status == 200, let body = try? answer?.json() { return body }
            refusals += 1
            guard refusals < 20 else { throw ChaosError("the API does not say what became of things: \(answer?.status ?? 0)") }
            try await Task.sleep(for: .milliseconds(100 * refusals))
        }
    }

    private func readNotification(_ id: String, _ app: Int) async throws -> [ReportedRecord] {
        guard let pushID = PushID(id), let body = try await answer(app, "notifications/\(id)") else { return [] }
        let counts = body["counts"]
        var reported = ReportedNotification(
            app: client.apps[app].slug, id: pushID,
            state: body["state"]?.stringValue.flatMap { ReportedNotification.State(rawValue: $0) } ?? .missing,
            hasAllReceipts: body["receipts"]?.stringValue != "failures", total: Int(counts?["total"]?.integerValue ?? 0),
            pending: Int(counts?["pending"]?.integerValue ?? 0),
            counts: OutcomeClass.allCases.compactMap { outcome in
                let count = counts?[outcome.rawValue]?.integerValue ?? 0
                return count == 0 ? nil : ReportedCount(outcome, Int(count))
            }, deliveries: (body["deliveries"]?.arrayValue ?? []).compactMap(delivery), isComplete: body["deliveries_truncated"] == nil)
        if !reported.isComplete {
            reported.deliveries = []
            var cursor: String?
            repeat {
                let page = try await get(app, "notifications/\(id)/deliveries?limit=1000" + (cursor.map { "&cursor=\($0)" } ?? ""))
                reported.deliveries += (page["deliveries"]?.arrayValue ?? []).compactMap(delivery)
                cursor = page["next_cursor"]?.stringValue
            } while cursor != nil
            reported.isComplete = true
        }
        return [.notification(reported)]
    }

    private func delivery(_ value: JSONValue) -> ReportedDelivery? {
        guard let id = value["id"]?.stringValue.flatMap({ PushID($0) }) else { return nil }
        return ReportedDelivery(
            id: id, installation: value["installation"]?.stringValue.flatMap { PushID($0) },
            outcome: value["state"]?.stringValue.flatMap { OutcomeClass(rawValue: $0) }, attempts: Int(value["attempts"]?.integerValue ?? 0)
        )
    }

    // MARK: Installations

    private func readInstallation(_ id: PushID, _ app: Int) async throws -> [ReportedRecord] {
        let slug = client.apps[app].slug
        guard let body = try await answer(app, "installations/\(id)?tokens=full") else {
            return [.installation(ReportedInstallation(app: slug, id: id, isRegistered: false, user: nil, epoch: nil, tokens: []))]
        }
        let tokens = (body["tokens"]?.arrayValue ?? []).compactMap { value -> ReportedToken? in
            guard let token = value["token"]?.stringValue.flatMap({ DeviceToken(hex: $0) }) else { return nil }
            return ReportedToken(
                token: token, isActive: value["state"]?.stringValue == "active", reason: value["retired_reason"]?.stringValue,
                registeredAt: Self.moment(value["registered_at"]), retiredAt: Self.moment(value["retired_at"]))
        }
        let installation = ReportedInstallation(
            app: slug, id: id, isRegistered: true, user: body["user"]?.stringValue, epoch: body["owner_epoch"]?.integerValue, tokens: tokens
        )
        return [.installation(installation)] + (try await retirements(id, app))
    }

    private func retirements(_ id: PushID, _ app: Int) async throws -> [ReportedRecord] {
        var found: [ReportedRecord] = []
        var cursor: String?
        repeat {
            let path = "installations/\(id)/history?limit=1000" + (cursor.map { "&cursor=\($0)" } ?? "")
            guard let page = try await answer(app, path) else { return found }
            for entry in page["entries"]?.arrayValue ?? [] where entry["event"]?.stringValue == "token_retired" {
                guard let at = Self.moment(entry["at"]) else { continue }
                found.append(
                    .retirement(
                        ReportedRetirement(
                            app: client.apps[app].slug, installation: id, hint: entry["token"]?["hint"]?.stringValue ?? "",
                            reason: entry["reason"]?.stringValue ?? "", status: entry["status"]?.integerValue.map { Int($0) },
                            apnsTimestamp: Self.moment(entry["apns_timestamp"]),
                            delivery: entry["delivery"]?.stringValue.flatMap { PushID($0) }, at: at)))
            }
            cursor = page["next_cursor"]?.stringValue
        } while cursor != nil
        return found
    }

    /// RFC 3339 with milliseconds, in microseconds.
    private static func moment(_ value: JSONValue?) -> Int64? {
        guard let text = value?.stringValue else { return nil }
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: text.contains("."))
        guard let date = try? style.parse(text) else { return nil }
        return Int64((date.timeIntervalSince1970 * 1000).rounded()) * 1000
    }
}
