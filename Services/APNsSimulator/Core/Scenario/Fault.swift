/// A fault that a request gets.
struct Fault: Sendable, Equatable {
    /// The result of the request itself; nil leaves it to the checks, the token's script and the device.
    var step: ScriptedAnswer?
    /// Added to any answer.
    var delay: DelayDistribution?
    /// The fault that the connection gets with it.
    var effect: ConnectionEffect?

    /// A decision about the request, which a request with a fault of its own does not reach: any answer but the server's own failure.
    var isJudgement: Bool {
        guard effect == nil, let step else { return false }
        return step.action == .answer && step.answer.status < 500
    }
}

/// A fault of a live connection, caused by a request's fault, a moment, or a command.
enum ConnectionEffect: Sendable, Equatable {
    /// - closes: The TCP connection ends with it.
    case goAway(lastStream: LastStream, code: UInt32, debug: [UInt8], closes: Bool)
    /// Ends without a notice, or abruptly with a TCP reset.
    case close(abruptly: Bool)
    /// Half of the next answer's bytes, then nothing more.
    case cut(closes: Bool)
    /// Writes no more bytes, not even to a PING: a peer that is gone.
    case freeze
    case streams(UInt32)
    /// SETTINGS_INITIAL_WINDOW_SIZE: 0 lets no body through (RFC 9113 section 6.9.2).
    case window(Int)
    case silence
    case answer
}

/// The last processed stream that a GOAWAY states.
enum LastStream: Sendable, Equatable {
    /// All before the request that caused it.
    case before
    /// All up to the request that caused it.
    case this
    /// Everything, now and later: a notice only.
    case all
    case number(Int32)

    /// Whether a server's GOAWAY may bear this number: 0, or a client's stream, which is odd (RFC 9113 section 5.1.1).
    static func isPossible(_ stream: Int64) -> Bool { (0...Int64(Int32.max)).contains(stream) && (stream == 0 || stream % 2 == 1) }

    /// - Parameter stream: The request's; nil if none caused it.
    func resolved(_ stream: Int32?) -> Int32? {
        switch self {
        case .before: stream.map { max(0, $0 - 2) }
        case .this: stream
        case .all: .max
        case .number(let number): number
        }
    }
}

/// How a connection begins with a fault.
enum Entrance: Sendable, Equatable {
    /// Closed as soon as it was accepted.
    case refuse
    /// A fatal handshake_failure alert (RFC 8446 section 6.2) instead of a ServerHello.
    case refuseTLS
    /// The ClientHello is not answered: for this many milliseconds, or ever.
    case stallTLS(Int64?)
    /// A certificate of an unknown authority, for another name.
    case wrongCertificate
    /// TLS without agreeing on `h2`.
    case noALPN
    /// TLS, and then no bytes: no SETTINGS, no answers.
    case freeze
    case streams(UInt32)
    case window(Int)
}

/// The delay of an answer or a step.
enum DelayDistribution: Sendable, Equatable {
    case fixed(Int64)
    case uniform(ClosedRange<Int64>)
    /// Points of the distribution function, between which it is straight: at 50 the median, at 100 the maximum.
    case percentiles([Point])

    struct Point: Sendable, Equatable {
        let percent: Double
        let milliseconds: Int64
    }

    func duration(_ draw: SeededDraw) -> Duration {
        switch self {
        case .fixed(let milliseconds): return .milliseconds(milliseconds)
        case .uniform(let range):
            return .milliseconds(range.lowerBound + Int64(draw.fraction * Double(range.upperBound - range.lowerBound + 1)))
        case .percentiles(let points):
            let percent = draw.fraction * 100
            guard let upper = points.firstIndex(where: { $0.percent >= percent }) else {
                return .milliseconds(points.last?.milliseconds ?? 0)
            }
            let high = points[upper]
            let low = upper > 0 ? points[upper - 1] : Point(percent: 0, milliseconds: 0)
            let part = high.percent > low.percent ? (percent - low.percent) / (high.percent - low.percent) : 1
            return .milliseconds(low.milliseconds + Int64(part * Double(high.milliseconds - low.milliseconds)))
        }
    }
}
