import Hummingbird
import StrictJSON
import Synchronization

/// The requests to the simulator, and their sums.
struct JournalControl {
    let simulator: APNsSimulator

    private static let usualLimit = 10_000
    private static let maximumLimit: Int64 = 200_000

    /// - `after`: only requests with a greater sequence number. `limit`: at most that many, the oldest first.
    /// - `wait_count`: answers when that many lie after `after`, or when `timeout_seconds` have passed.
    func list(_ request: ControlRequest) async throws -> Response {
        let after = try request.number("after", in: 0...(.max / 2)) ?? 0
        let limit = try request.number("limit", in: 1...Self.maximumLimit).map { Int($0) } ?? Self.usualLimit
        if let wait = try request.wait() {
            _ = await simulator.world.wait(for: .requests(total: after + wait.count), timeout: wait.timeout)
        }
        let (entries, first, last) = simulator.journalPage(after: after, limit: limit)
        return ControlAnswer.json { writer in
            writer.object { object in
                object.field("first_sequence", first)
                object.field("last_sequence", last)
                object.array("requests") { array in
                    for entry in entries { entry.write(to: &array) }
                }
            }
        }
    }

    func clear() -> Response {
        simulator.clearJournal()
        return ControlAnswer.noContent
    }

    func counters() -> Response {
        let counters = simulator.counters
        return ControlAnswer.json { writer in
            writer.object { object in
                object.field("requests", counters.requests)
                object.field("accepted", counters.accepted)
                object.field("shown", counters.shown)
                object.array("rejections") { array in
                    let kinds = counters.rejections.sorted { ($0.key.status, $0.key.reason ?? "") < ($1.key.status, $1.key.reason ?? "") }
                    for (kind, count) in kinds {
                        array.object { entry in
                            entry.field("status", kind.status)
                            entry.field("reason", kind.reason)
                            entry.field("count", count)
                        }
                    }
                }
                object.object("unanswered") { object in
                    for action in ScriptedAnswer.Action.allCases {
                        object.field(action.rawValue, counters.unanswered[action])
                    }
                }
                object.field("lost", counters.lost)
                object.object("journal") { object in
                    object.field("overwritten", counters.journalOverwritten)
                    object.field("file_lost", counters.journalFileLost)
                }
                object.object("connections") { object in
                    object.field("opened", counters.connectionsOpened)
                    object.field("open", counters.connectionsOpen)
                    object.field("handshakes_failed", counters.handshakesFailed)
                }
            }
        }
    }
}
