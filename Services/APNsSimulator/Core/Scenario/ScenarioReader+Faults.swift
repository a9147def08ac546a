import StrictJSON

/// The actions, each with fields of its own.
extension ScenarioReader {
    private enum RequestAction: String, CaseIterable {
        case answer, late, silence, reset, close
        case goAway = "goaway"
        case halfFrame = "half_frame"
        case freeze, streams, window
    }

    private enum ConnectionAction: String, CaseIterable {
        case refuse
        case refuseTLS = "refuse_tls"
        case stallTLS = "stall_tls"
        case wrongCertificate = "wrong_certificate"
        case noALPN = "no_alpn"
        case freeze, streams, window
    }

    private enum EventAction: String, CaseIterable {
        case goAway = "goaway"
        case close, freeze, silence, answer, streams, window
    }

    static func fault(_ reader: inout JSONObjectReader) -> Fault? {
        guard let action = reader.choice("action", of: RequestAction.self) else { return nil }
        switch action {
        case .answer:
            let answer = answer(&reader)
            let delay = delay(&reader)
            return answer.map { Fault(step: ScriptedAnswer(.answer, answer: $0), delay: delay) }
        case .late:
            let delay = delay(&reader)
            if delay == nil { reader.problem("delay", "missing", "required") }
            return Fault(delay: delay)
        case .silence: return Fault(step: .silence)
        case .reset:
            let code = reader.optionalInteger("error_code", in: 0...Int64(UInt32.max)).map { UInt32($0) }
            return Fault(step: .reset(code ?? ScriptedAnswer.refusedStream), delay: delay(&reader))
        case .close:
            let isAbrupt = reader.optionalBool("abruptly") ?? false
            return isAbrupt
                ? Fault(step: .silence, effect: .close(abruptly: true)) : Fault(step: .close, delay: delay(&reader))
        case .goAway:
            return Fault(effect: goAway(&reader, default: .before))
        case .halfFrame:
            return Fault(step: ScriptedAnswer(.halfFrame), effect: .cut(closes: reader.optionalBool("close") ?? false))
        case .freeze: return Fault(step: .silence, effect: .freeze)
        case .streams: return streams(&reader).map { Fault(effect: .streams($0)) }
        case .window: return window(&reader).map { Fault(effect: .window($0)) }
        }
    }

    static func entrance(_ reader: inout JSONObjectReader) -> Entrance? {
        guard let action = reader.choice("action", of: ConnectionAction.self) else { return nil }
        switch action {
        case .refuse: return .refuse
        case .refuseTLS: return .refuseTLS
        case .stallTLS: return .stallTLS(reader.optionalInteger("for_ms", in: 1...3_600_000))
        case .wrongCertificate: return .wrongCertificate
        case .noALPN: return .noALPN
        case .freeze: return .freeze
        case .streams: return streams(&reader).map { .streams($0) }
        case .window: return window(&reader).map { .window($0) }
        }
    }

    static func eventEffect(_ reader: inout JSONObjectReader) -> ConnectionEffect? {
        guard let action = reader.choice("action", of: EventAction.self) else { return nil }
        switch action {
        case .goAway: return goAway(&reader, default: nil)
        case .close: return .close(abruptly: reader.optionalBool("abruptly") ?? false)
        case .freeze: return .freeze
        case .silence: return .silence
        case .answer: return .answer
        case .streams: return streams(&reader).map { .streams($0) }
        case .window: return window(&reader).map { .window($0) }
        }
    }

    private static func answer(_ reader: inout JSONObjectReader) -> Answer? {
        let status = reader.integer("status", in: 200...599)
        let reason = reader.optionalString("reason", maximumBytes: 200)
        let timestamp = reader.optionalInteger("timestamp_ms", in: 0...Int64.max)
        let frameBytes = reader.optionalInteger("frame_bytes", in: 1...16_384)
        return status.map { Answer(status: Int($0), reason: reason, timestamp: timestamp, frameBytes: frameBytes.map { Int($0) }) }
    }

    private static func streams(_ reader: inout JSONObjectReader) -> UInt32? {
        reader.integer("streams", in: 0...1_000_000).map { UInt32($0) }
    }

    private static func window(_ reader: inout JSONObjectReader) -> Int? {
        reader.integer("bytes", in: 0...1_048_576).map { Int($0) }
    }

    /// - Parameter default: The last processed stream if the scenario does not state one; nil is everything so far.
    private static func goAway(_ reader: inout JSONObjectReader, default fallback: LastStream?) -> ConnectionEffect {
        let reason = reader.optionalString("reason", maximumBytes: 200)
        let text = reader.optionalString("text", maximumBytes: 1000, isProse: true)
        if reason != nil, text != nil { reader.problem("text", "unsupported_value", "either this or reason") }
        let code = reader.optionalInteger("error_code", in: 0...Int64(UInt32.max)).map { UInt32($0) } ?? 0
        let closes = reader.optionalBool("close") ?? false
        let debug = text.map { Array($0.utf8) } ?? reason.flatMap { Answer(status: 503, reason: $0).body } ?? []
        return .goAway(
            lastStream: lastStream(&reader, byRequest: fallback != nil) ?? fallback ?? .this, code: code, debug: debug, closes: closes)
    }

    private static func lastStream(_ reader: inout JSONObjectReader, byRequest: Bool) -> LastStream? {
        guard let value = reader.optionalValue("last_stream") else { return nil }
        if let number = value.integerValue, let stream = Int32(exactly: number), LastStream.isPossible(number) {
            return stream == .max ? .all : .number(stream)
        }
        switch value.stringValue {
        case "before" where byRequest: return .before
        case "this" where byRequest: return .this
        case "all": return .all
        default:
            let words = byRequest ? "before, this, all" : "all"
            reader.problem("last_stream", "unsupported_value", "0 or odd, as clients' streams are, up to \(Int32.max), or one of \(words)")
            return nil
        }
    }

    private static func delay(_ reader: inout JSONObjectReader) -> DelayDistribution? {
        let longest: Int64 = 3_600_000
        if let fixed = reader.optionalInteger("delay_ms", in: 0...longest) { return .fixed(fixed) }
        guard var fields = reader.optionalObject("delay") else { return nil }
        defer { fields.finish() }
        if fields.has("percentiles") { return percentiles(&fields, longest) }
        guard let from = fields.integer("from_ms", in: 0...longest), let to = fields.integer("to_ms", in: 0...longest) else { return nil }
        guard from <= to else {
            fields.problem("to_ms", "out_of_range", "not before from_ms")
            return nil
        }
        return .uniform(from...to)
    }

    private static func percentiles(_ fields: inout JSONObjectReader, _ longest: Int64) -> DelayDistribution? {
        var points: [DelayDistribution.Point] = []
        let expected = "pairs of percent and milliseconds, both rising, the last percent 100, such as [[50,20],[99,700],[100,3000]]"
        for pair in fields.value("percentiles")?.arrayValue ?? [] {
            guard pair.arrayValue?.count == 2, let percent = pair[0]?.numberValue, let milliseconds = pair[1]?.integerValue,
                (0...100).contains(percent), percent > points.last?.percent ?? -1,
                ((points.last?.milliseconds ?? 0)...longest).contains(milliseconds)
            else {
                fields.problem("percentiles", "unsupported_value", expected)
                return nil
            }
            points.append(DelayDistribution.Point(percent: percent, milliseconds: milliseconds))
        }
        guard points.last?.percent == 100 else {
            fields.problem("percentiles", "unsupported_value", expected)
            return nil
        }
        return .percentiles(points)
    }
}
