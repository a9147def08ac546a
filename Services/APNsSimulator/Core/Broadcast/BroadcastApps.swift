import FoundationEssentials

/// One broadcast channel (Apple: Sending channel management requests to APNs).
struct Channel {
    /// Keeps the most recent message for devices that are off; else none.
    let isStoring: Bool
    var subscribers: Set<TokenKey> = []
    var published: Int64 = 0
    var stored: Inbox.Entry?
}

/// The channels of every app and environment. Lives behind the world's lock.
struct BroadcastApps {
    /// Of one app in one environment.
    struct App {
        /// The Broadcast Capability of the App ID.
        var isEnabled = true
        var channels: [String: Channel] = [:]
    }

    struct Key: Hashable {
        let environment: SimulatorEnvironment
        let bundleID: String
    }

    /// Per app and environment, as Apple limits them.
    static let maximumChannels = 10_000
    /// Of all apps and both environments, to bound the simulator's memory.
    static let maximumChannelsOfAll = 200_000
    /// At most 8 hours, in milliseconds.
    static let longestStorage: Int64 = 8 * 3_600_000

    private var apps: [Key: App] = [:]
    private var channelCount = 0

    func app(_ key: Key) -> App { apps[key] ?? App() }

    func app(with channelID: String, in environment: SimulatorEnvironment) -> Key? {
        apps.first { $0.key.environment == environment && $0.value.channels[channelID] != nil }?.key
    }

    var keys: [Key] { Array(apps.keys) }

    /// Without the capability, all channels are lost for ever.
    mutating func setEnabled(_ isEnabled: Bool, _ key: Key) {
        apps[key, default: App()].isEnabled = isEnabled
        guard !isEnabled else { return forgetIfEmpty(key) }
        channelCount -= app(key).channels.count
        apps[key]?.channels = [:]
    }

    /// - Parameters:
    ///   - limit: Of the app.
    ///   - limitOfAll: Of all apps, so that a client with a key cannot fill the memory with apps of any name.
    /// - Returns: nil if there is no room for another.
    mutating func create(isStoring: Bool, limit: Int, limitOfAll: Int = maximumChannelsOfAll, _ key: Key) -> String? {
        guard app(key).channels.count < limit, channelCount < limitOfAll else { return nil }
        channelCount += 1
        var random = SystemRandomNumberGenerator()
        let id = Data((0..<16).map { _ in random.next() as UInt8 }).base64EncodedString()
        apps[key, default: App()].channels[id] = Channel(isStoring: isStoring)
        return id
    }

    mutating func delete(_ channelID: String, _ key: Key) -> Bool {
        guard apps[key]?.channels.removeValue(forKey: channelID) != nil else { return false }
        channelCount -= 1
        forgetIfEmpty(key)
        return true
    }

    /// An app without channels equals an unknown one.
    private mutating func forgetIfEmpty(_ key: Key) {
        if let app = apps[key], app.isEnabled, app.channels.isEmpty { apps[key] = nil }
    }

    mutating func subscribe(_ token: TokenKey, to channelID: String, _ key: Key) {
        apps[key]?.channels[channelID]?.subscribers.insert(token)
    }

    mutating func unsubscribe(_ token: TokenKey, from channels: Set<String>, in environment: SimulatorEnvironment) {
        for channelID in channels {
            guard let key = app(with: channelID, in: environment) else { continue }
            apps[key]?.channels[channelID]?.subscribers.remove(token)
        }
    }

    /// - Parameter stored: The entry that the channel keeps; nil keeps none.
    /// - Returns: The devices that listen.
    mutating func publish(_ channelID: String, stored: Inbox.Entry?, _ key: Key) -> Set<TokenKey> {
        apps[key]?.channels[channelID]?.published += 1
        apps[key]?.channels[channelID]?.stored = stored
        return apps[key]?.channels[channelID]?.subscribers ?? []
    }

    /// The channels' kept messages for a device that comes online or joins.
    func stored(for channels: Set<String>, in environment: SimulatorEnvironment, now: Int64) -> [Inbox.Entry] {
        channels.compactMap { channelID in
            guard let key = app(with: channelID, in: environment), let entry = apps[key]?.channels[channelID]?.stored else { return nil }
            return entry.expiresAt.map { $0 > now } ?? false ? entry : nil
        }
    }
}
