/// The faults of a link in each direction, and for new connections.
package struct LinkConditions: Sendable, Equatable {
    /// One direction.
    package struct Way: Sendable, Equatable {
        package enum Flow: Sendable, Equatable {
            /// Bytes go through.
            case flowing
            /// The proxy reads nothing, so the sender's buffers fill up and no byte is lost. Flowing continues where it stopped.
            case stalled
            /// The proxy reads bytes and drops them.
            case vanishing
        }

        package var flow = Flow.flowing
        /// The delay of every byte, rounded up to milliseconds.
        package var latency = Duration.zero
        /// The largest extra delay, drawn for each read. The order of the bytes stays.
        package var jitter = Duration.zero
        /// The rate of one connection; nil: no limit.
        package var bytesPerSecond: Int?
        /// The largest number of bytes in one write; nil: no limit.
        package var sliceBytes: Int?
        /// The pause between two writes. Without it the receiver may find several slices at once.
        package var slicePause = Duration.zero
        /// The connection ends after exactly this number of bytes, counted from the call or from the start of the connection.
        package var limit: Limit?
        /// After this number of bytes, counted in the same way, the next byte arrives changed, once for each connection.
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
        /// The proxy notifies neither side and passes no more bytes.
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

    /// The proxy writes every byte as soon as it has read it.
    var isClear: Bool {
        flow == .flowing && latency == .zero && jitter == .zero && bytesPerSecond == nil && sliceBytes == nil && limit == nil
            && garbled == nil
    }
}

extension LinkConditions {
    /// Everything goes through.
    package static let forwarding = LinkConditions()
    /// The proxy reads nothing, so the peers' buffers fill up and no byte is lost. Forwarding continues where it stopped.
    package static let paused = LinkConditions(bothWays: .stalled)
    /// The proxy drops the bytes of both directions, and accepts new connections without an answer, like a network that vanished silently.
    package static let blackHole = LinkConditions(bothWays: .vanishing)
    /// The server gets the client's bytes; the client gets nothing.
    package static let deafClient = LinkConditions(toClient: .vanishing)
    /// The client gets the server's bytes; the server gets nothing.
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
