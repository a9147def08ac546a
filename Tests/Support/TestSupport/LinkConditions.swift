/// What a link does to what goes through it, in each direction, and to those who want to connect.
package struct LinkConditions: Sendable, Equatable {
    /// One direction.
    package struct Way: Sendable, Equatable {
        package enum Flow: Sendable, Equatable {
            /// Bytes go through.
            case flowing
            /// Nothing is read any more: the sender's buffers fill up, nothing is lost. Flowing again goes on where it stopped.
            case stalled
            /// Bytes are read and vanish.
            case vanishing
        }

        package var flow = Flow.flowing
        /// Every byte arrives so much later. Rounded up to milliseconds, in which the proxy counts.
        package var latency = Duration.zero
        /// And up to so much later still, drawn for what is read at once; the order of the bytes stays.
        package var jitter = Duration.zero
        /// Of one connection; nil: as many as can be.
        package var bytesPerSecond: Int?
        /// At most so many bytes are written at a time; nil: as many as there are.
        package var sliceBytes: Int?
        /// Between two writes. Without it, the receiver may find several slices at once.
        package var slicePause = Duration.zero
        /// After so many bytes, counted from when this was set or the connection was made, the connection ends: exactly so many arrive.
        package var limit: Limit?
        /// After so many bytes, counted likewise, the next one arrives as another one, once for each connection.
        package var garbled: Int?

        package init() {}
    }

    package struct Limit: Sendable, Equatable {
        /// 0 ends the connection at once.
        package var bytes: Int
        package var ending: Ending

        package init(bytes: Int, ending: Ending) {
            self.bytes = bytes
            self.ending = ending
        }
    }

    package enum Ending: Sendable, Equatable {
        /// Both sides are reset.
        case reset
        /// Both sides read the end of the stream.
        case close
        /// Both sides are told nothing, and hear nothing any more.
        case silence
    }

    package var toServer = Way()
    package var toClient = Way()
    /// New connections are closed at once.
    package var refusesNew = false

    package init() {}

    /// The same in both directions.
    package init(bothWays way: Way) {
        toServer = way
        toClient = way
    }
}

extension LinkConditions.Way {
    package static let vanishing = Self { $0.flow = .vanishing }
    package static let stalled = Self { $0.flow = .stalled }

    package init(_ change: (inout Self) -> Void) {
        self.init()
        change(&self)
    }

    package static func delayed(by latency: Duration, jitter: Duration = .zero) -> Self {
        Self {
            $0.latency = latency
            $0.jitter = jitter
        }
    }

    package static func limited(to bytesPerSecond: Int) -> Self { Self { $0.bytesPerSecond = bytesPerSecond } }

    package static func sliced(_ bytes: Int, pause: Duration = .zero) -> Self {
        Self {
            $0.sliceBytes = bytes
            $0.slicePause = pause
        }
    }

    package static func ending(after bytes: Int, _ ending: LinkConditions.Ending) -> Self {
        Self { $0.limit = .init(bytes: bytes, ending: ending) }
    }

    package static func garbled(after bytes: Int) -> Self { Self { $0.garbled = bytes } }

    /// Nothing stands in the way of a byte: it is written as soon as it is read.
    var isClear: Bool {
        flow == .flowing && latency == .zero && jitter == .zero && bytesPerSecond == nil && sliceBytes == nil && limit == nil
            && garbled == nil
    }
}

extension LinkConditions {
    /// Everything goes through.
    package static let forwarding = LinkConditions()
    /// Nothing is read any more: the peers' buffers fill up, nothing is lost. Forwarding again goes on where it stopped.
    package static let paused = LinkConditions(bothWays: .stalled)
    /// Bytes of both directions are read and vanish; new connections are accepted and answered by silence: a network that is gone without
    /// saying so.
    package static let blackHole = LinkConditions(bothWays: .vanishing)
    /// The server hears the client; the client hears nothing any more.
    package static let deafClient = LinkConditions(toClient: .vanishing)
    /// The client hears the server; the server hears nothing any more.
    package static let deafServer = LinkConditions(toServer: .vanishing)
    /// New connections are closed at once; existing ones are forwarded.
    package static let refusing = {
        var conditions = LinkConditions()
        conditions.refusesNew = true
        return conditions
    }()
    /// Every connection is reset at once.
    package static let resetting = LinkConditions(toServer: .ending(after: 0, .reset))

    package init(toServer: Way = Way(), toClient: Way = Way()) {
        self.toServer = toServer
        self.toClient = toClient
    }
}
