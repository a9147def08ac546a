package import PushModel

/// Apple's answer to a request that it did not carry out.
package struct ChannelRefusal: Equatable, Sendable {
    package var status: Int
    package var reason: String

    /// The reason that Apple gives when an app has as many channels as it may have.
    static let limitReached = "CannotCreateChannelConfig"

    /// The reason that Apple gives when it knows no such channel.
    package static let notRegistered = "ChannelNotRegistered"

    var isAbsence: Bool { reason == Self.notRegistered }
    /// The same request may succeed later.
    var isTemporary: Bool { status == 429 || status >= 500 }
    /// Apple may have carried it out all the same.
    var isUncertain: Bool { status >= 500 }
}

extension BroadcastChannel {
    /// Everything that can change a channel.
    package enum Event: Equatable, Sendable {
        /// A backend takes a foreign channel over, under this name.
        case adopted(String)
        /// A backend does not want it any more.
        case unwanted
        /// The command that creates it is about to be published.
        case asked(PushID)
        /// Apple has created it.
        case created(ChannelID)
        /// No channel at Apple comes from the create whose answer is missing.
        case notCreated
        /// Apple says how it stores broadcasts.
        case described(ChannelStorage)
        /// Apple knows no such channel, or has deleted it.
        case absent
        case refused(ChannelRefusal, retryAt: Int64)
        /// There was no answer, or none that says anything about the channel.
        case delayed(String, until: Int64)
        /// Whether Apple's list shows it.
        case listed(Bool)
    }

    /// The state machine. Every change of a channel is an event of it.
    /// - Returns: whether the row stays.
    package mutating func apply(_ event: Event, now: Int64) -> Bool {
        switch (state, event) {
        case (.foreign, .adopted(let name)):
            self.name = name
            become(.creating, now: now)
        case (.creating, .asked(let command)): creation = command
        case (.creating, .created(let id)):
            appleID = id
            become(.open, now: now)
        case (.creating, .described(let storage)):
            self.storage = storage
            become(.open, now: now)
        case (.creating, .absent): fail(ChannelRefusal.notRegistered, now: now)
        case (.creating, .refused(let refusal, let retryAt)):
            guard refusal.isTemporary else {
                fail(refusal.reason, now: now)
                break
            }
            if !refusal.isUncertain { creation = nil }
            wait(refusal.reason, until: retryAt)
        case (.creating, .unwanted):
            // A list, or a late answer, shows whether Apple has a channel for it.
            guard creation != nil || appleID != nil else { return false }
            become(.deleting, now: now, keepsCreation: true)
        case (.creating, .notCreated):
            creation = nil
            dueAt = now
        case (.deleting, .created(let id)):
            appleID = id
            creation = nil
            dueAt = now
        case (.deleting, .absent), (.deleting, .notCreated): return false
        case (.deleting, .refused(let refusal, let retryAt)):
            guard appleID != nil || refusal.isUncertain else { return false }
            wait(refusal.reason, until: retryAt)
        case (.creating, .delayed(let reason, let until)), (.deleting, .delayed(let reason, let until)): wait(reason, until: until)
        case (.open, .unwanted), (.lost, .unwanted), (.foreign, .unwanted): become(.deleting, now: now)
        case (.open, .absent), (.open, .listed(false)): become(.lost, now: now)
        case (.lost, .listed(true)): become(.open, now: now)
        case (.failed, .unwanted), (.foreign, .absent), (.foreign, .listed(false)): return false
        case (.foreign, .described(let storage)): self.storage = storage
        // An event that is late, or that changes nothing.
        default: break
        }
        return true
    }

    private mutating func become(_ state: State, now: Int64, keepsCreation: Bool = false) {
        self.state = state
        changedAt = now
        reason = nil
        dueAt = state == .creating || state == .deleting ? now : nil
        if !keepsCreation { creation = nil }
    }

    private mutating func fail(_ reason: String, now: Int64) {
        become(.failed, now: now)
        appleID = nil
        self.reason = reason
    }

    private mutating func wait(_ reason: String, until moment: Int64) {
        self.reason = reason
        dueAt = moment
    }
}
