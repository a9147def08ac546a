import Synchronization

/// Where connections and the supervisor note what the snapshot shows.
final class PoolLedger: Sendable {
    private struct Notes {
        var state = APNsPoolState.connecting
        var connections: [ConnectionID: APNsPoolSnapshot.Connection] = [:]
        var totals = APNsPoolSnapshot.Totals()
    }

    private let notes = Mutex(Notes())

    var state: APNsPoolState { notes.withLock { $0.state } }

    /// - Returns: whether it is news.
    func set(_ state: APNsPoolState) -> Bool {
        notes.withLock { notes in
            guard notes.state != state else { return false }
            notes.state = state
            return true
        }
    }

    /// Adds what happened since the last report, and empties it.
    func report(_ connection: APNsPoolSnapshot.Connection, _ totals: inout APNsPoolSnapshot.Totals) {
        notes.withLock { notes in
            notes.connections[connection.id] = connection
            notes.totals.add(totals)
        }
        totals = APNsPoolSnapshot.Totals()
    }

    func remove(_ id: ConnectionID) {
        notes.withLock { $0.connections[id] = nil }
    }

    func count(_ change: (inout APNsPoolSnapshot.Totals) -> Void) {
        notes.withLock { change(&$0.totals) }
    }

    /// How full these connections are, as far as they have reported.
    func load(of connections: Set<ConnectionID>, maximumStreams: Int, requestsWait: Bool) -> PoolSize.Load {
        notes.withLock { notes in
            var load = PoolSize.Load(connections: connections.count, openStreams: 0, streamLimit: 0, requestsWait: requestsWait)
            for (id, connection) in notes.connections where connections.contains(id) {
                load.openStreams += connection.openStreams
                load.streamLimit += min(connection.streamLimit, maximumStreams)
            }
            return load
        }
    }

    func snapshot(parked: Lanes<Int>) -> APNsPoolSnapshot {
        notes.withLock { notes in
            APNsPoolSnapshot(
                state: notes.state, parkedNow: parked.now, parkedSoon: parked.soon, parkedBulk: parked.bulk,
                connections: notes.connections.values.sorted { $0.id < $1.id }, totals: notes.totals)
        }
    }
}
