import FoundationEssentials

/// One broadcast channel (Apple: Sending channel management requests to APNs).
struct Channel {
    /// Keeps the most recent message for devices that are off; else none.
    let isStoring: Bool
    var subscribers: Set<TokenKey> = []
    /// Followers without a device, which are always online.
    var anonymous: Int64 = 0
    var published: Int64 = 0
    /// How often a follower got a broadcast, anonymous ones included.
    var receptions: Int64 = 0
    var stored: Inbox.Entry?
    /// How many broadcasts there were in this second, where they have a limit.
    fileprivate var pace: Throttle?
}

/// The channels of every app and environment. Lives behind the world's lock.
struct BroadcastApps {
    /// The state of one app in one environment.
    struct App {
        /// The Broadcast Capability of the App ID.
        var isEnabled = true
        var channels: [String: Channel] = [:]
    }

    struct Key: Hashable {
        let environment: SimulatorEnvironment
        let bundleID: String
    }

    /// The most channels per app and environment, as Apple limits them.
    static let maximumChannels = 10_000
    /// The most channels of all apps and both environments, to bound the simulator's memory.
    static let maximumChannelsOfAll = 200_000
    /// Followers without a device, of one channel.
    static let maximumAnonymous: Int64 = 1_000_000_000
    /// The longest time that Apple stores a broadcast: 8 hours, in milliseconds.
    static let longestStorage: Int64 = 8 * 3_600_000

    private var apps: [Key: App] = [:]
    private var channelCount = 0

    func app(_ key: Key) -> App { apps[key] ?? App() }

    func app(with channelID: String, in environment: SimulatorEnvironment) -> Key? {
        apps.first { $0.key.environment == environment && $0.value.channels[channelID] != nil }?.key
    }

    var keys: [Key] { Array(apps.keys) }

    /// Sets the capability. Without it, all channels are lost for ever.
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
        guard var channel = apps[key]?.channels[channelID] else { return [] }
        channel.published += 1
        channel.stored = stored
        channel.receptions += channel.anonymous
        apps[key]?.channels[channelID] = channel
        return channel.subscribers
    }

    /// Whether another broadcast fits into this second.
    mutating func admits(_ channelID: String, perSecond limit: Int, _ key: Key, now: Int64) -> Bool {
        guard var channel = apps[key]?.channels[channelID] else { return true }
        var pace = channel.pace ?? Throttle(pushes: Int64(limit), milliseconds: 1000)
        let isAdmitted = pace.admits(now)
        channel.pace = pace
        apps[key]?.channels[channelID] = channel
        return isAdmitted
    }

    mutating func noteReceptions(_ count: Int64, of channelID: String, in environment: SimulatorEnvironment) {
        guard count > 0, let key = app(with: channelID, in: environment) else { return }
        apps[key]?.channels[channelID]?.receptions += count
    }

    /// - Parameter count: May be negative. There are never fewer than none, or more than a thousand million.
    mutating func addAnonymous(_ count: Int64, to channelID: String, _ key: Key) {
        guard let before = apps[key]?.channels[channelID]?.anonymous else { return }
        apps[key]?.channels[channelID]?.anonymous = min(max(0, before + count), Self.maximumAnonymous)
    }

    /// The channels' kept messages for a device that comes online or joins.
    func stored(for channels: Set<String>, in environment: SimulatorEnvironment, now: Int64) -> [Inbox.Entry] {
        channels.compactMap { channelID in
            guard let key = app(with: channelID, in: environment), let entry = apps[key]?.channels[channelID]?.stored else { return nil }
            return entry.expiresAt.map { $0 > now } ?? false ? entry : nil
        }
    }
}
