/// Where the system's callbacks leave their events until a ``PushClient`` is there.
///
/// iOS may call the app delegate before the app has made its client. The inbox keeps these events in order and hands each to the
/// client exactly once. It keeps 256; one more drops the oldest that is not about a token. Any thread may call it.
public final class PushInbox: Sendable {
    /// The inbox of the process: adaptors put events here, and a client takes them from here.
    public static let shared = PushInbox()

    private let mailbox = Mailbox<PushEvent>(capacity: 256) { !$0.isToken }

    /// An inbox of its own, for tests.
    public init() {}

    /// Events that did not fit since the start of the process.
    public var dropped: Int { mailbox.dropped }

    /// Keeps the event, or hands it to the client on this thread if there is one.
    public func put(_ event: PushEvent) {
        mailbox.put(event)
    }

    func attach(_ consumer: @escaping @Sendable (PushEvent) -> Bool) {
        mailbox.attach(consumer)
    }
}
