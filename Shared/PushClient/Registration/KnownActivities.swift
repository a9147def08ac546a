/// A Live Activity, by the two ids that it has.
struct ActivityName: Codable, Hashable, Sendable {
    /// The app's own, by which the server names it.
    let id: String
    /// ActivityKit's, which no other activity ever has. Two activities of one `id` may follow each other.
    let instance: String
}

/// The Live Activities of this device that the server has, or may have: names and no tokens. They outlive the launch, because iOS does not
/// report an end to an app that does not run.
struct KnownActivities: Codable, Hashable, Sendable {
    /// One more drops the oldest. A device shows far fewer, and iOS ends each after eight hours.
    static let capacity = 100
    /// Right after a launch ActivityKit may not have loaded yet. An activity that it does not list counts as gone only after this time.
    static let loading = Duration.seconds(10)

    private struct Entry: Codable, Hashable, Sendable {
        let name: ActivityName
        /// The full name of the attributes type. A list of running activities speaks for its own type alone.
        let type: String?
        /// Who was signed in when the app first saw it, or when a report of it last left.
        var user: String?
        /// The server has it for this user, and ends it when the user leaves. Until then it counts for whoever is signed in: its user may
        /// have left before the first report, and the server learns of it from the next user's (`ActivityReports`), and ends it.
        var isReported = false
        /// It is over on this device, and the server does not know it yet.
        var isOver = false
    }

    private var entries: [Entry] = []

    /// The activity runs: adds one that is new.
    mutating func see(_ name: ActivityName, type: String?, user: String?) {
        if let index = entries.firstIndex(where: { $0.name.instance == name.instance }) {
            // It may have been taken for gone, and the server has not heard of it yet.
            entries[index].isOver = false
            return
        }
        // A late end of the earlier one would end this one at the server.
        entries.removeAll { $0.isOver && $0.name.id == name.id && $0.user == user }
        append(Entry(name: name, type: type, user: user))
    }

    /// The activity is over. Its end is not reported if a newer one of the same id runs: it would end that one at the server.
    mutating func end(_ name: ActivityName, user: String?) {
        let known = entries.first { $0.name.instance == name.instance }
        var ended = known ?? Entry(name: name, type: nil, user: user)
        ended.isOver = true
        let isReplaced = entries.contains {
            !$0.isOver && $0.name.id == ended.name.id && $0.user == ended.user && $0.name.instance != name.instance
        }
        if isReplaced {
            entries.removeAll { $0.name.instance == name.instance }
        } else if let index = entries.firstIndex(where: { $0.name.instance == name.instance }) {
            entries[index] = ended
        } else {
            append(ended)
        }
    }

    /// Compares with what ActivityKit lists of one type: adds what is new, and ends what is gone.
    ///
    /// - Parameter age: How long this process has followed the type, in running time.
    mutating func compare(with running: [ActivityName], type: String, age: Duration, user: String?) {
        for name in running { see(name, type: type, user: user) }
        guard age >= Self.loading else { return }
        let instances = Set(running.map(\.instance))
        for entry in entries where !entry.isOver && entry.type == type && !instances.contains(entry.name.instance) {
            end(entry.name, user: entry.user)
        }
    }

    /// The server knows the end. An activity that was seen again meanwhile stays.
    mutating func removeEnd(of name: ActivityName) { entries.removeAll { $0.isOver && $0.name.instance == name.instance } }

    /// When another user signs in, the server ends the former user's activities on this device by itself.
    mutating func forgetEnds(ofOthersThan users: [String?]) { entries.removeAll { $0.isOver && !users.contains($0.user) } }

    /// The first end of this user's that the server does not know.
    func ended(of user: String?) -> ActivityName? { entries.first { $0.isOver && $0.user == user }?.name }

    /// A report for this user leaves.
    mutating func begin(_ name: ActivityName, for user: String?) { change(name) { $0.user = user } }

    /// The server has taken the report.
    mutating func settle(_ name: ActivityName) { change(name) { $0.isReported = true } }

    private mutating func change(_ name: ActivityName, _ change: (inout Entry) -> Void) {
        for index in entries.indices where entries[index].name == name { change(&entries[index]) }
    }

    /// This user's and those that the server does not have yet, oldest first; of one id the newest.
    func running(of user: String?) -> [ActivityName] {
        let mine = entries.filter { !$0.isOver && ($0.user == user || !$0.isReported) }
        return mine.filter { entry in mine.last { $0.name.id == entry.name.id } == entry }.map(\.name)
    }

    func isRunning(_ instance: String) -> Bool { entries.contains { $0.name.instance == instance && !$0.isOver } }

    private mutating func append(_ entry: Entry) {
        entries.append(entry)
        if entries.count > Self.capacity { entries.removeFirst() }
    }
}
