/// What a request suffers.
struct Fault: Sendable, Equatable {
    /// What happens to the request itself; nil leaves it to the checks, the token's script and the device.
    var step: ScriptedAnswer?
    /// Added to whatever the answer is.
    var delay: DelayDistribution?
    /// What the connection suffers with it.
    var effect: ConnectionEffect?

    /// A judgement on the request, which one that is at fault itself does not reach: any answer that is not the server's own failure.
    var isJudgement: Bool {
        guard effect == nil, let step else { return false }
        return step.action == .answer && step.answer.status < 500
    }
}

/// What a live connection suffers, by a request's fault, at a moment, or by command.
enum ConnectionEffect: Sendable, Equatable {
    /// - closes: The TCP connection ends with it.
    case goAway(lastStream: LastStream, code: UInt32, debug: [UInt8], closes: Bool)
    /// Ends without a word, or abruptly with a TCP reset.
    case close(abruptly: Bool)
    /// Half of the next answer's bytes, then nothing more.
    case cut(closes: Bool)
    /// Nothing is written any more, not even to a PING: a peer that is gone.
    case freeze
    case streams(UInt32)
    /// SETTINGS_INITIAL_WINDOW_SIZE: 0 lets no body through (RFC 9113 section 6.9.2).
    case window(Int)
    case silence
    case answer
}

/// What a GOAWAY says was processed.
enum LastStream: Sendable, Equatable {
    /// All before the request that caused it.
    case before
    /// Up to the request that caused it.
    case this
    /// Everything, now and later: a notice only.
    case all
    case number(Int32)

    /// Whether a server's GOAWAY may bear this number: 0, or a client's stream, which is odd (RFC 9113 section 5.1.1).
    static func isPossible(_ stream: Int64) -> Bool { (0...Int64(Int32.max)).contains(stream) && (stream == 0 || stream % 2 == 1) }

    /// - Parameter stream: The request's; nil where none caused it.
    func resolved(_ stream: Int32?) -> Int32? {
        switch self {
        case .before: stream.map { max(0, $0 - 2) }
        case .this: stream
        case .all: .max
        case .number(let number): number
        }
    }
}

/// How a connection begins badly.
enum Entrance: Sendable, Equatable {
    /// Closed as soon as it was accepted.
    case refuse
    /// A fatal handshake_failure alert (RFC 8446 section 6.2) instead of a ServerHello.
    case refuseTLS
    /// The ClientHello is not answered: for so many milliseconds, or ever.
    case stallTLS(Int64?)
    /// A certificate that nobody trusts, for another name.
    case wrongCertificate
    /// TLS without agreeing on `h2`.
    case noALPN
    /// TLS, and then nothing: no SETTINGS, no answers.
    case freeze
    case streams(UInt32)
    case window(Int)
}

/// How late something is.
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
