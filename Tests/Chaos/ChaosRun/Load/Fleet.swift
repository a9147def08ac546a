import PushModel
import Synchronization
import TestSupport

/// An app of the run. Its tokens begin with their own byte, so that a push to another app's device shows.
struct ChaosApp: Sendable {
    let slug: String
    let bundleID: String
    let policy: String
    let environment: String
    /// Two hex digits.
    let tokenPrefix: String
    /// `activity_window_seconds`.
    var activityWindow: Int64?
    /// Of every Live Activity.
    static let attributesType = "Ride"
    /// `devices`, `send`, `read` and `admin`.
    var key = ""

    static let all = [
        ChaosApp(slug: "messenger", bundleID: "com.example.messenger", policy: "multi", environment: "production", tokenPrefix: "a1"),
        ChaosApp(slug: "shop", bundleID: "com.example.shop", policy: "multi", environment: "sandbox", tokenPrefix: "a2", activityWindow: 2),
        ChaosApp(slug: "bank", bundleID: "com.example.bank", policy: "single", environment: "production", tokenPrefix: "a3"),
    ]

    func drawToken(_ random: inout SeededGenerator) -> DeviceToken {
        let bytes = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) }
        guard let first = UInt8(tokenPrefix, radix: 16), let token = DeviceToken(bytes: [first] + bytes.dropFirst()) else {
            preconditionFailure("an app's prefix is two hex digits")
        }
        return token
    }
}

/// A device as its owner knows it: one request at a time, as a phone does it.
struct Device: Sendable {
    let app: Int
    var installation: PushID
    var token: DeviceToken
    /// The user that the device believes to be signed in; nil for none.
    var user: String?
    var isRegistered = false
    /// Starts Live Activities of the type ``ChaosApp/attributesType``.
    var startToken: DeviceToken?
    /// APNs has throttled the device. Once in a run is enough, because the next attempt comes much later each time.
    var wasThrottled = false
    let tags: [String]
}

/// All devices. A borrowed device belongs to its borrower until it is returned.
final class Fleet: Sendable {
    private struct State {
        var devices: [Device]
        var idle: [Int]
        /// All installations, also those that devices have lost since.
        var installations: [(app: Int, id: PushID)]
    }

    private let state: Mutex<State>

    init(_ devices: [Device]) {
        state = Mutex(
            State(devices: devices, idle: Array(devices.indices), installations: devices.map { ($0.app, $0.installation) }))
    }

    var count: Int { state.withLock { $0.devices.count } }

    /// - Returns: nil if all wanted devices are in use.
    func borrow(_ random: inout SeededGenerator, where isWanted: (Device) -> Bool) -> (index: Int, device: Device)? {
        state.withLock { state in
            guard !state.idle.isEmpty else { return nil }
            for _ in 0..<8 {
                let place = Int.random(in: state.idle.indices, using: &random)
                let index = state.idle[place]
                guard isWanted(state.devices[index]) else { continue }
                state.idle.swapAt(place, state.idle.count - 1)
                state.idle.removeLast()
                return (index, state.devices[index])
            }
            return nil
        }
    }

    /// - Returns: the first one that has not registered yet, if it is not lent.
    func borrowUnregistered() -> (index: Int, device: Device)? {
        state.withLock { state in
            guard let place = state.idle.firstIndex(where: { !state.devices[$0].isRegistered }) else { return nil }
            let index = state.idle.remove(at: place)
            return (index, state.devices[index])
        }
    }

    func giveBack(_ index: Int, _ device: Device) {
        state.withLock { state in
            if state.devices[index].installation != device.installation { state.installations.append((device.app, device.installation)) }
            state.devices[index] = device
            state.idle.append(index)
        }
    }

    /// A copy of some device, borrowed or not, for callers that only read its names.
    func glance(_ random: inout SeededGenerator) -> Device? {
        state.withLock { $0.devices.randomElement(using: &random) }
    }

    /// Every installation that a request has named.
    var everyInstallation: [(app: Int, id: PushID)] { state.withLock { $0.installations } }
}
