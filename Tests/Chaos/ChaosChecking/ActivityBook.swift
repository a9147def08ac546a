import ChaosLedger
import PushModel

/// The Live Activities that backends started, and the devices that have them.
struct ActivityBook {
    struct Key: Hashable {
        let app: Int
        let id: String
    }

    /// One activity on one device.
    struct Screen: Hashable {
        let activity: Key
        let installation: PushID
    }

    /// What a notification does to an activity.
    struct Change {
        let activity: Key
        let event: ClientRecord.ActivityEvent
        /// UNIX seconds.
        let timestamp: Int64

        init?(_ record: ClientRecord, app: Int) {
            guard let id = record.activity, let event = record.event, let timestamp = record.timestamp else { return nil }
            (activity, self.event, self.timestamp) = (Key(app: app, id: id), event, timestamp)
        }
    }

    /// Places in the book of sends, the start first.
    private(set) var changes: [Key: [Int32]] = [:]
    /// By update token.
    private(set) var screens: [Int32: Screen] = [:]
    /// When the answers to the reports of its update tokens came.
    private(set) var reports: [Screen: [Int64]] = [:]
    /// Of any device.
    private(set) var lastReport: [Key: Int64] = [:]
    /// Where a person has dismissed it.
    private(set) var swiped: Set<Screen> = []
    /// Activities that a person has dismissed on one of the user's devices.
    private(set) var dismissed: Set<Key> = []
    /// The device's own token, for each of its other tokens.
    private var devices: [Int32: Int32] = [:]
    private var deviceOf: [PushID: Int32] = [:]
    /// The highest timestamp that APNs has accepted for it.
    var newest: [Screen: Int64] = [:]

    /// - Parameter token: Any token of a device.
    func device(of token: Int32) -> Int32 { devices[token] ?? token }
    func device(at installation: PushID) -> Int32? { deviceOf[installation] }

    mutating func note(_ send: SendBook.Send, at index: Int32) {
        guard let change = send.activity else { return }
        changes[change.activity, default: []].append(index)
    }

    mutating func note(_ record: ClientRecord, names: inout Names) {
        guard let app = names.app(record.app), let installation = record.installation else { return }
        switch record.kind {
        case .register:
            guard !record.startTokens.isEmpty, let device = record.tokens.first.map({ names.token($0) }) else { return }
            deviceOf[installation] = device
            for token in record.startTokens { devices[names.token(token)] = device }
        case .report:
            guard let id = record.activity, let token = record.tokens.first.map({ names.token($0) }) else { return }
            let screen = Screen(activity: Key(app: app, id: id), installation: installation)
            screens[token] = screen
            devices[token] = deviceOf[installation]
            guard (200..<300).contains(record.status ?? 0), let answeredAt = record.answeredAt else { return }
            reports[screen, default: []].append(answeredAt)
            lastReport[screen.activity] = max(lastReport[screen.activity] ?? .min, answeredAt)
        case .dismiss:
            guard let id = record.activity else { return }
            swiped.insert(Screen(activity: Key(app: app, id: id), installation: installation))
            dismissed.insert(Key(app: app, id: id))
        default: break
        }
    }
}
