/// One entry of what a device shows.
package struct InboxNotification: Sendable, Equatable {
    /// UNIX milliseconds.
    package let receivedAt: Int64
    /// As the sender wrote it, or as the simulator made it.
    package let apnsID: String
    package let topic: String
    /// nil where the sender named none.
    package let pushType: String?
    package let collapseID: String?
    package let content: NotificationContent
}

/// What a device's lock screen holds. Bounded: the oldest entries go.
struct Inbox {
    static let maximumEntries = 1000

    /// Compact: texts are made only when somebody looks.
    struct Entry {
        let receivedAt: Int64
        let id: MessageID
        let idWasGenerated: Bool
        let topic: [UInt8]
        let type: PushType?
        let collapseID: [UInt8]?
        let content: PayloadReader.Reading
    }

    private var entries: [Entry] = []
    private var oldest = 0

    var count: Int { entries.count - oldest }

    /// Shows an entry; one with the same collapse id and topic gives way to it (APNS.md section 2).
    mutating func show(_ entry: Entry) {
        if let collapseID = entry.collapseID {
            entries.removeAll { $0.collapseID == collapseID && $0.topic == entry.topic }
        }
        entries.append(entry)
        if count > Self.maximumEntries { oldest += 1 }
        if oldest == Self.maximumEntries {
            entries.removeFirst(oldest)
            oldest = 0
        }
    }

    var notifications: [InboxNotification] {
        entries[oldest...].compactMap { entry in
            entry.content.content.map { content in
                InboxNotification(
                    receivedAt: entry.receivedAt,
                    apnsID: String(decoding: entry.id.text(upperCase: entry.idWasGenerated), as: UTF8.self),
                    topic: String(decoding: entry.topic, as: UTF8.self), pushType: entry.type?.name,
                    collapseID: entry.collapseID.map { String(decoding: $0, as: UTF8.self) }, content: content)
            }
        }
    }
}
