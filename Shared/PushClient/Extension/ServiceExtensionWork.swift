/// The work of a notification service extension on one notification: it delivers once, in time, the best content that it has.
///
/// The system shows the original content if an extension does not deliver in time (Apple, "UNNotificationServiceExtension"). Any thread
/// may call it.
public final class ServiceExtensionWork: Sendable {
    private struct State {
        var best: NotificationContent
        var deliver: (@Sendable (NotificationContent) -> Void)?
        var tasks: [Task<Void, Never>] = []
    }

    private let state: Guarded<State>

    /// - Parameters:
    ///   - content: The original.
    ///   - deliver: Called exactly once, on any thread.
    public init(_ content: NotificationContent, deliver: @escaping @Sendable (NotificationContent) -> Void) {
        state = Guarded(State(best: content, deliver: deliver))
    }

    /// Begins the steps, one after another, and returns at once.
    ///
    /// - Parameter budget: The time from now until the delivery. The system allows about 30 seconds, and calls
    ///   `serviceExtensionTimeWillExpire` before it stops the extension.
    public func begin(_ steps: [any NotificationStep], budget: Duration = .seconds(25), clock: any PushClock = SystemPushClock()) {
        let worker = Task { [self] in
            for step in steps {
                guard let content = current, !Task.isCancelled else { return }
                if let better = try? await step.improve(content) { keep(better) }
            }
            deliver()
        }
        let timer = Task { [self] in
            if (try? await clock.sleep(for: budget)) != nil { deliver() }
        }
        let isOver = state.withLock { state in
            state.tasks = [worker, timer]
            return state.deliver == nil
        }
        if isOver { for task in [worker, timer] { task.cancel() } }
    }

    /// Delivers the best content so far, unless it was delivered. For `serviceExtensionTimeWillExpire`.
    public func deliver() {
        let (content, deliver, tasks) = state.withLock { state in
            defer { state.deliver = nil }
            return (state.best, state.deliver, state.tasks)
        }
        deliver?(content)
        for task in tasks { task.cancel() }
    }

    private var current: NotificationContent? { state.withLock { $0.deliver == nil ? nil : $0.best } }

    private func keep(_ content: NotificationContent) { state.withLock { $0.best = content } }
}
