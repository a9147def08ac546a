import FoundationEssentials
import HTTP2

/// A request about channels, as its path and headers describe it.
struct BroadcastRequest {
    enum Operation {
        case create, read, delete, list, broadcast
    }

    let operation: Operation
    let bundleID: String
    let headers: HeaderList

    private static let broadcastPath = "/4/broadcasts/apps/"
    private static let managementPath = "/1/apps/"
    private static let maximumBundleIDBytes = 255

    static func isBroadcast(_ headers: HeaderList) -> Bool {
        headers[":path"]?.hasPrefix("/4/broadcasts/") ?? false
    }

    /// - Throws: ``BroadcastAnswer``: no such path, or not with this method.
    init(_ headers: HeaderList, isManagement: Bool) throws(BroadcastAnswer) {
        self.headers = headers
        let (path, method) = (headers[":path"] ?? "", headers[":method"] ?? "")
        if !isManagement {
            bundleID = String(path.dropFirst(Self.broadcastPath.count))
            guard path.hasPrefix(Self.broadcastPath), Self.isBundleID(bundleID), !bundleID.contains("/") else {
                throw BroadcastAnswer(.badPath)
            }
            guard method == "POST" else { throw BroadcastAnswer(.methodNotAllowed) }
            operation = .broadcast
            return
        }
        let parts = path.dropFirst(Self.managementPath.count).split(separator: "/", omittingEmptySubsequences: false)
        guard path.hasPrefix(Self.managementPath), parts.count == 2, Self.isBundleID(parts[0]) else { throw BroadcastAnswer(.badPath) }
        bundleID = String(parts[0])
        switch (parts[1], method) {
        case ("channels", "POST"): operation = .create
        case ("channels", "GET"): operation = .read
        case ("channels", "DELETE"): operation = .delete
        case ("all-channels", "GET"): operation = .list
        case ("channels", _), ("all-channels", _): throw BroadcastAnswer(.methodNotAllowed)
        default: throw BroadcastAnswer(.badPath)
        }
    }

    /// Whether the text is as long as a topic may be. It is checked before the client's rights, because it is kept with the request.
    private static func isBundleID(_ text: some StringProtocol) -> Bool {
        (1...maximumBundleIDBytes).contains(text.utf8.count)
    }

    /// `apns-request-id`, or `apns-id`, which Apple's own sample sends (docs/apns.md, Broadcasts).
    /// - Throws: ``BroadcastAnswer`` if it is not a UUID.
    static func id(_ headers: HeaderList) throws(BroadcastAnswer) -> MessageID? {
        guard let text = headers["apns-request-id"] ?? headers["apns-id"] else { return nil }
        let bytes = Array(text.utf8)
        guard let id = MessageID(bytes.span) else { throw BroadcastAnswer(.badMessageID) }
        return id
    }

    /// The header of every request but create and list.
    func channelID() throws(BroadcastAnswer) -> String {
        guard let text = headers["apns-channel-id"], !text.isEmpty else { throw BroadcastAnswer(.missingChannelID) }
        guard let bytes = Data(base64Encoded: text), !bytes.isEmpty else { throw BroadcastAnswer(.badChannelID) }
        return text
    }
}
