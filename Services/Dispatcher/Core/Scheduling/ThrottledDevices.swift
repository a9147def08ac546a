import Broker
import PushModel

/// Holds the devices or channels that APNs asked to leave alone for a while (429 `TooManyRequests`), and the newest waiting notification
/// for each.
///
/// Known to this process only: another one finds out by itself, at the price of one more 429.
struct ThrottledDevices {
    struct Device: Hashable {
        let app: ControlState.AppIndex
        let environment: APNsEnvironment
        /// For a broadcast, the id of its channel.
        let token: DeviceToken
    }

    /// How old a notification is: of one collapse id, only the newest is worth sending.
    struct Age: Comparable {
        let acceptedAt: Int64
        let notification: PushID

        static func < (left: Age, right: Age) -> Bool {
            (left.acceptedAt, left.notification) < (right.acceptedAt, right.notification)
        }
    }

    enum Decision: Equatable {
        case send
        /// The notification waits until this moment (UNIX milliseconds).
        case wait(until: Int64)
        /// A newer one of the same collapse id was seen.
        case superseded
    }

    private struct Entry {
        var until: Int64
        var newest: [String: Age] = [:]
    }

    /// No wait is longer. One that seems to end later was recorded before the clock was set back, and is over.
    private static let longestWait = RetryDelay.allCases.last?.milliseconds ?? 0
    /// Older notifications come back from the longest delayed queue up to this much later.
    private static let memory: Int64 = 20 * 60_000
    private static let maximumDevices = 100_000
    /// Collapse ids remembered for one device. Beyond it no notification is superseded; all are sent.
    private static let maximumCollapseIDs = 64
    /// The most collapse ids that are remembered for all devices: some 150 bytes each.
    private static let maximumRemembered = 300_000

    private var devices: [Device: Entry] = [:]
    private var remembered = 0

    var isEmpty: Bool { devices.isEmpty }
    var count: Int { devices.count }

    /// - Parameter until: UNIX milliseconds.
    mutating func throttle(_ device: Device, until: Int64, collapseID: String?, age: Age) {
        guard devices[device] != nil || devices.count < Self.maximumDevices else { return }
        let known = devices[device]?.until ?? until
        devices[device, default: Entry(until: until)].until = known - until > Self.longestWait ? until : max(until, known)
        remember(device, collapseID, age)
    }

    mutating func judge(_ device: Device, collapseID: String?, age: Age, now: Int64) -> Decision {
        guard let entry = devices[device] else { return .send }
        if let collapseID, let newest = entry.newest[collapseID], age < newest { return .superseded }
        remember(device, collapseID, age)
        guard now < entry.until, entry.until - now <= Self.longestWait else { return .send }
        return .wait(until: entry.until)
    }

    private mutating func remember(_ device: Device, _ collapseID: String?, _ age: Age) {
        guard let collapseID, let entry = devices[device] else { return }
        if let newest = entry.newest[collapseID] {
            if newest < age { devices[device]?.newest[collapseID] = age }
        } else if entry.newest.count < Self.maximumCollapseIDs, remembered < Self.maximumRemembered {
            devices[device]?.newest[collapseID] = age
            remembered += 1
        }
    }

    mutating func forget(now: Int64) {
        guard !devices.isEmpty else { return }
        devices = devices.filter { now < $0.value.until + Self.memory && $0.value.until - now <= Self.longestWait }
        remembered = devices.values.reduce(0) { $0 + $1.newest.count }
    }
}
