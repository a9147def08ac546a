import ChaosLedger
import PushModel

/// Every notification that a client meant to send. All attempts with one marker are one notification.
struct SendBook {
    struct Send {
        let marker: Int64
        /// Of the first attempt, for evidence.
        let request: Int64
        let app: Int
        let target: ClientRecord.Target
        /// A number of ``Names``; -1 for none.
        let user: Int32
        let users: [Int32]
        let installation: PushID?
        let notBefore: Int64?
        /// nil while no answer has named it and the client did not.
        var lane: Lane?
        let hasKey: Bool
        /// What it does to a Live Activity; nil for any other notification.
        let activity: ActivityBook.Change?
        var expiresAt: Int64?
        var sentAt: Int64
        var attempts = 0
        /// Attempts that may have been accepted although no answer said so: no answer, or 5xx.
        var unclear = 0
        /// The id in the first 202.
        var notification: PushID?
        var acceptedAt: Int64?
        /// As the API has reported it.
        var state: ReportedNotification.State?
        /// The first of its deliveries in the push log; -1 for none.
        var firstDelivery: Int32 = -1

        var mayBeAccepted: Bool { notification != nil || unclear > 0 }
    }

    private(set) var sends: [Send] = []
    private var byMarker: [Int64: Int32] = [:]
    private var byNotification: [PushID: Int32] = [:]

    subscript(_ index: Int32) -> Send {
        get { sends[Int(index)] }
        set { sends[Int(index)] = newValue }
    }

    func index(ofMarker marker: Int64) -> Int32? { byMarker[marker] }
    func index(ofNotification id: PushID) -> Int32? { byNotification[id] }

    /// - Returns: its place, if it is not known from an earlier attempt.
    mutating func note(_ record: ClientRecord, names: inout Names, into verdict: inout Verdict) -> Int32? {
        guard let marker = record.marker, let app = names.app(record.app) else { return nil }
        let isNew = byMarker[marker] == nil
        let index = byMarker[marker] ?? add(record, marker, app, &names)
        sends[Int(index)].attempts += 1
        sends[Int(index)].sentAt = min(sends[Int(index)].sentAt, record.sentAt)
        switch record.status {
        case .some(200..<300): accept(record, index, into: &verdict)
        case nil, .some(500...): sends[Int(index)].unclear += 1
        default: break
        }
        // A moment that counts from an acceptance is unknown if no answer reported the acceptance.
        if let seconds = record.ttlSeconds, record.expiresAt == nil {
            let known = record.status == nil ? nil : record.answeredAt.map { $0 + Int64(seconds) * 1_000_000 }
            sends[Int(index)].expiresAt = max(sends[Int(index)].expiresAt ?? 0, known ?? .max)
        }
        return isNew ? index : nil
    }

    private mutating func add(_ record: ClientRecord, _ marker: Int64, _ app: Int, _ names: inout Names) -> Int32 {
        let index = Int32(sends.count)
        sends.append(
            Send(
                marker: marker, request: record.id, app: app, target: record.target ?? .user,
                user: record.user.map { names.user($0, app) } ?? -1, users: record.users.map { names.user($0, app) },
                installation: record.installation, notBefore: record.notBefore, lane: record.lane, hasKey: record.key != nil,
                activity: ActivityBook.Change(record, app: app),
                expiresAt: record.expiresAt, sentAt: record.sentAt))
        byMarker[marker] = index
        return index
    }

    private mutating func accept(_ record: ClientRecord, _ index: Int32, into verdict: inout Verdict) {
        guard let id = record.notification else { return }
        let send = sends[Int(index)]
        if let first = send.notification, first != id, send.hasKey {
            verdict.find(
                .idempotency,
                "marker \(send.marker): request \(send.request) and its repetitions got \(first), request \(record.id) \(id)")
        }
        if send.notification == nil {
            sends[Int(index)].notification = id
            sends[Int(index)].acceptedAt = record.answeredAt
            if let lane = record.lane { sends[Int(index)].lane = lane }
        }
        if byNotification.updateValue(index, forKey: id).map({ $0 != index }) == true {
            verdict.find(.idempotency, "notification \(id) was returned to request \(record.id) and to one with another marker")
        }
    }
}

/// Numbers for names that the ledgers repeat.
struct Names {
    let apps: [RunRecord.App]
    private var users: [String: Int32] = [:]
    private(set) var userNames: [String] = []
    private var tokens: [DeviceToken: Int32] = [:]
    private(set) var tokenValues: [DeviceToken] = []

    init(_ run: RunRecord) { apps = run.apps }

    func app(_ slug: String?) -> Int? { apps.firstIndex { $0.slug == slug } }

    /// Users of different apps are different people.
    mutating func user(_ name: String, _ app: Int) -> Int32 {
        let key = "\(app)/\(name)"
        if let known = users[key] { return known }
        let number = Int32(userNames.count)
        users[key] = number
        userNames.append(name)
        return number
    }

    func knownUser(_ name: String, _ app: Int) -> Int32? { users["\(app)/\(name)"] }

    mutating func token(_ token: DeviceToken) -> Int32 {
        if let known = tokens[token] { return known }
        let number = Int32(tokenValues.count)
        tokens[token] = number
        tokenValues.append(token)
        return number
    }

    func knownToken(_ token: DeviceToken) -> Int32? { tokens[token] }

    func name(_ user: Int32) -> String { user < 0 ? "no user" : userNames[Int(user)] }
    func hint(_ token: Int32) -> String { token < 0 ? "no token" : tokenValues[Int(token)].hint }
}
