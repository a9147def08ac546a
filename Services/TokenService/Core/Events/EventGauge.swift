import Synchronization

/// How far behind the feeds of this process are; nothing of those that another process reads.
package final class EventGauge: Sendable {
    private let rows = Mutex<[EventFeed.Name: Int64]>([:])

    package init() {}

    func set(_ feed: EventFeed.Name, waiting: Int64?) { rows.withLock { $0[feed] = waiting } }

    package func waiting(_ feed: EventFeed.Name) -> Int64 { rows.withLock { $0[feed] } ?? 0 }
}
