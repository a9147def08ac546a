import SystemIO

/// Lets a thread without a connection sleep until it is woken or a time has passed.
final class Rest {
    private let poller: Poller

    init(wokenBy wakeUp: WakeUp) throws(SystemError) {
        poller = try Poller(capacity: 1)
        try poller.add(wakeUp.descriptor, key: 0, interest: .read)
    }

    /// - Returns: whether it was woken.
    @discardableResult
    func take(upTo duration: Duration) throws(SystemError) -> Bool { try !poller.wait(timeout: max(.zero, duration)).isEmpty }
}
