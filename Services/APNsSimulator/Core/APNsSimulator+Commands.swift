/// Server actions on connections, on demand. All take effect a moment later, on the connections' own threads, for those open then.
extension APNsSimulator {
    /// Which live connections a command is for.
    package enum Selection: Sendable, Equatable {
        case all
        case environment(SimulatorEnvironment)
        /// As the journal counts them.
        case connection(Int)
    }

    /// Sends GOAWAY with `{"reason":…}` and takes no new streams (docs/apns.md, Connections).
    /// - Parameters:
    ///   - reason: nil sends no text; ``RejectionReason/shutdown`` is Apple's reason when a server goes down.
    ///   - text: Sent verbatim instead of a reason: APNs has been seen to send plain words.
    ///   - lastStream: The last processed stream: open streams above are lost, and the client has to send them again. An even number means
    ///     the one below it; nil: all so far; `Int32.max`: a notice, which changes nothing.
    package func goAway(
        _ selection: Selection = .all, reason: RejectionReason? = .shutdown, text: String? = nil, lastStream: Int32? = nil, code: UInt32 = 0
    ) {
        let debug = text.map { Array($0.utf8) } ?? reason.flatMap { Answer($0).body } ?? []
        post(.goAway(selection, lastStream: lastStream, code: code, debug: debug))
    }

    /// Announces another MAX_CONCURRENT_STREAMS on live connections. It replaces the configured value there.
    package func setStreams(_ streams: Int, _ selection: Selection = .all) {
        post(.setStreams(selection, UInt32(clamping: streams)))
    }

    /// Ends the TCP connections without a GOAWAY.
    /// - Parameter abruptly: With a TCP reset, after which the client loses bytes that it has not read yet.
    package func closeConnections(_ selection: Selection = .all, abruptly: Bool = false) {
        post(.close(selection, abruptly: abruptly))
    }

    /// From now on live connections swallow their requests without an answer, or answer again. Swallowed requests stay unanswered.
    package func setSilent(_ isSilent: Bool, _ selection: Selection = .all) {
        post(.setSilent(selection, isSilent))
    }
}
