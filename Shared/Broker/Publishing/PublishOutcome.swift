/// The outcome of one message of a publication.
package struct PublishAnswer: Sendable, Equatable {
    /// The message's place in the publication.
    package let index: Int
    package let outcome: PublishOutcome

    package init(index: Int, outcome: PublishOutcome) {
        self.index = index
        self.outcome = outcome
    }
}

/// The result of one message.
package enum PublishOutcome: Sendable, Equatable {
    /// The broker has stored it on a majority of its nodes.
    case confirmed
    /// The message's exchange refused it, and one of ``OutgoingMessage/fallbackExchanges`` has stored it in the same way.
    case confirmedElsewhere
    case failed(PublishFailure)

    package var isConfirmed: Bool { self == .confirmed || self == .confirmedElsewhere }
}

/// Why a message was not confirmed.
package enum PublishFailure: Sendable, Equatable {
    /// The broker refused it: the queue is full. It is not stored; try later.
    case nacked
    /// No queue is bound for it: a fault in the topology. It is not stored.
    case unroutable
    /// Too many messages wait to be published already. It was not taken; try later.
    case full
    /// The message's queue answers nothing, and many messages wait for that queue already. It is not stored, as a rule; try later.
    case stalled
    /// ``Withdrawal``: it is not written any more.
    case withdrawn
    /// No connection of the publisher had an answer for its `outageLimit`: it may be stored or not. The publisher does not write it any
    /// more.
    case disconnected
    /// The publisher ended before the broker had confirmed it: it may be stored or not.
    case stopped
    /// The caller's deadline passed, or its task was cancelled, first: it may be stored already, or be stored later.
    case deadlineExceeded
    /// It cannot be encoded: a name over 255 bytes, or more than 64 KiB of headers. It is not stored.
    case invalid
}

/// The state of a publisher.
package enum PublisherState: Sendable, Equatable {
    /// The publisher is not connected and tries to connect. Messages are taken and wait.
    case connecting
    case ready
    /// The broker has raised a resource alarm and takes no messages. Messages are taken here and wait.
    case blocked
    /// Ended; takes nothing any more.
    case stopped
}
