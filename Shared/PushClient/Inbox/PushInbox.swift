public import Foundation

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

    private let mailbox = HandoverQueue<Entry>(capacity: 256, mayDrop: { $0.event.subject == nil }, subject: { $0.event.subject })
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

/// What the system tells an app, as the adaptors put it into the inbox.
public enum PushEvent: Sendable, Equatable {
    /// A device token, as raw bytes of any length (Apple, "Registering your app with APNs").
    case token(Data, purpose: PushTokenPurpose)
    /// The system gave no token, though it should: the app gets a ``PushNotice/tokenFailed(purpose:message:)``. A token that came earlier
    /// in this launch still counts, unless it starts Live Activities. The server keeps one of an earlier launch.
    case tokenFailed(purpose: PushTokenPurpose, message: String)
    /// The system has not made the token yet: as a failure, and the app gets no notice. A registration does not wait for it any longer.
    case tokenPending(purpose: PushTokenPurpose)
    /// There is no token now, and nothing is wrong: no widget is placed, the channel was left, PushKit ended the token. The server retires
    /// the one that it has.
    case noToken(purpose: PushTokenPurpose)
    /// The update token of a Live Activity, by the app's own id of it, with the name of its attributes type, and whether the person lets
    /// the app update its activities frequently. The channel is the backend's name of the one whose states it shows, if the device cannot
    /// follow the channel itself (below iOS 18). `instance` is ActivityKit's id; without it the app's own stands for both, and the app
    /// never uses it again. `fullType` is a name of the type that no other type of the app has, the same at each launch; without it
    /// `type` stands for both.
    case activityToken(
        Data, activity: String, instance: String? = nil, type: String? = nil, fullType: String? = nil, frequentUpdates: Bool? = nil,
        channel: String? = nil)
    /// A Live Activity is over on this device.
    case activityEnded(String, instance: String? = nil)
    /// All Live Activities of an attributes type that run on this device: the app's own id of each by ActivityKit's. The type has the name
    /// that its tokens came with, `fullType` if there was one. If the process has followed the type for ten seconds, each that it has known
    /// and that is missing here is over. Before that ActivityKit may not have loaded all. The age is running time: the time in which the
    /// process was suspended does not count.
    case activities([String: String], type: String, age: Duration)
    /// A notification arrived while the app runs.
    case notification(PushNotification)
    /// The person tapped a notification, chose one of its actions, or dismissed it.
    case tap(PushTap)
    /// The person opened the app: a good moment to try again, and to state a registration again that is older than a day.
    case opened
    /// The network came back: a good moment to try again.
    case goodMoment

    /// What an event about tokens says something of. Of two such events that no client has taken yet, the later one says all.
    var subject: [String]? {
        switch self {
        case .token(_, let purpose): ["token", purpose.rawValue]
        case .tokenFailed(let purpose, _): ["tokenFailed", purpose.rawValue]
        case .tokenPending(let purpose): ["tokenPending", purpose.rawValue]
        case .noToken(let purpose): ["noToken", purpose.rawValue]
        case .activityToken(_, let activity, let instance, _, _, _, _): ["activityToken", instance ?? activity]
        case .activityEnded(let activity, let instance): ["activityEnded", instance ?? activity]
        case .activities(_, let type, _): ["activities", type]
        case .notification, .tap, .opened, .goodMoment: nil
        }
    }
}
