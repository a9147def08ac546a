/// Where the system's callbacks leave their events until a ``PushClient`` is there.
///
/// iOS may call the app delegate before the app has made its client. The inbox keeps these events in order and hands each to the
/// client exactly once. It keeps 256; one more drops the oldest that is not about a token. An event about a token replaces an earlier one
/// that is still kept, if both are of one kind and about the same. Any thread may call it.
public final class PushInbox: Sendable {
    /// An event, and what tells the adaptor that the app has handled it.
    struct Entry: Sendable {
        var event: PushEvent
        var handled: @Sendable () -> Void = {}
    }

    private struct Process {
        var backgroundTime: (any BackgroundTime)?
        var settled: @Sendable () async -> Void = {}
    }

    /// The inbox of the process: adaptors put events here, and a client takes them from here.
    public static let shared = PushInbox()

    private let mailbox = Mailbox<Entry>(capacity: 256, mayDrop: { $0.event.subject == nil }, subject: { $0.event.subject })
    private let process = Guarded(Process())

    /// An inbox of its own, for tests.
    public init() {}

    /// Events that did not fit since the start of the process.
    public var dropped: Int { mailbox.dropped }

    /// How the client keeps the process running while it sends; nil where the system suspends no app. ``PushAppDelegate`` sets it.
    public var backgroundTime: (any BackgroundTime)? {
        get { process.withLock { $0.backgroundTime } }
        set {
            // The earlier one goes outside the lock.
            _ = process.withLock { process -> (any BackgroundTime)? in
                defer { process.backgroundTime = newValue }
                return process.backgroundTime
            }
        }
    }

    /// Keeps the event, or hands it to the client on this thread if there is one.
    public func put(_ event: PushEvent) {
        mailbox.put(Entry(event: event))
    }

    /// Keeps the tap, or hands it to the client, and answers the system once the app has handled it.
    ///
    /// A tap that is not handled within the budget stays, or goes on; only its answer does not wait any longer.
    ///
    /// - Parameters:
    ///   - budget: Apple's page of the callback asks for the answer, and states no limit.
    ///   - answer: Called once. It calls the completion handler of `userNotificationCenter(_:didReceive:withCompletionHandler:)`, which
    ///     UIKit expects on the main thread.
    public func put(
        _ tap: PushTap, budget: Duration = .seconds(10), clock: any PushClock = SystemPushClock(),
        answer: @escaping @MainActor @Sendable () -> Void
    ) {
        let (handled, end) = AsyncStream<Never>.makeStream()
        mailbox.put(Entry(event: .tap(tap), handled: { end.finish() }))
        Task { @MainActor in
            await within(budget, clock: clock, otherwise: ()) { for await _ in handled {} }
            answer()
        }
    }

    /// Returns when the client has no request in flight (``PushClient/settled()``), or at once without a client.
    public func settled() async {
        let settled = process.withLock { $0.settled }
        await settled()
    }

    func attach(settled: @escaping @Sendable () async -> Void, _ consumer: @escaping @Sendable (Entry) -> Bool) {
        process.withLock { $0.settled = settled }
        mailbox.attach(consumer)
    }
}
