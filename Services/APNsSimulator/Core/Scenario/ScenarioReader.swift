import StrictJSON
import SystemIO

/// Reads a scenario strictly: an unknown field, an impossible value or a rule without effect is refused with its place.
enum ScenarioReader {
    static let maximumBytes = 1 << 20
    private static let maximumRules = 200
    /// Milliseconds. A handshake, which takes two of TLS 1.2, must end within its time limit.
    private static let longestRoundTrip: Int64 = 4000

    /// - Throws: ``SimulatorError``, one sentence that names the file and the place.
    static func read(file path: String) throws(SimulatorError) -> Scenario {
        let content: [UInt8]
        do throws(WholeFile.Fault) {
            content = try WholeFile(path: path, maximumBytes: maximumBytes).bytes
        } catch {
            throw SimulatorError(.scenario, "the scenario file \(path) cannot be used: \(error)")
        }
        do throws(SimulatorError) {
            return try parse(content)
        } catch {
            throw SimulatorError(.scenario, "\(path): \(error)")
        }
    }

    static func parse(_ content: [UInt8]) throws(SimulatorError) -> Scenario {
        let root: JSONValue
        do throws(JSONError) {
            root = try JSONValue.parse(content, maximumBytes: maximumBytes)
        } catch {
            throw SimulatorError(.scenario, "not JSON: \(error)")
        }
        var reader = JSONObjectReader(root)
        let scenario = read(&reader)
        reader.finish()
        guard reader.problems.isEmpty, let scenario else {
            let problems = reader.problems.list.map { "\($0.pointer.isEmpty ? "/" : $0.pointer): \($0.code), \($0.detail)" }
            throw SimulatorError(.scenario, problems.isEmpty ? "not a scenario" : problems.joined(separator: "; "))
        }
        return scenario
    }

    /// Records faults in the reader; the caller finishes it.
    static func read(_ reader: inout JSONObjectReader) -> Scenario? {
        _ = reader.integer("v", in: 1...1)
        let name = reader.string("name", maximumBytes: 100)
        let about = reader.optionalString("about", minimumBytes: 0, maximumBytes: 2000, isProse: true) ?? ""
        let seed = reader.optionalInteger("seed", in: 0...Int64.max) ?? 1
        let requests = reader.optionalObjects("requests", maximumCount: maximumRules) ?? []
        let connections = reader.optionalObjects("connections", maximumCount: maximumRules) ?? []
        let events = reader.optionalObjects("events", maximumCount: maximumRules) ?? []
        let roundTrip = reader.optionalInteger("round_trip_ms", in: 0...longestRoundTrip) ?? 0
        let readings = reader.optionalObject("readings").map { Readings($0) } ?? Readings()
        let scenario = Scenario(
            name: name ?? "", about: about, seed: UInt64(seed),
            requests: requests.enumerated().compactMap { request($1, number: $0) },
            connections: connections.enumerated().compactMap { connection($1, number: $0) },
            events: events.enumerated().compactMap { event($1, number: $0) }, roundTrip: .milliseconds(roundTrip),
            readings: readings)
        return reader.problems.isEmpty ? scenario : nil
    }

    private static func request(_ fields: JSONObjectReader, number: Int) -> RequestRule? {
        var reader = fields
        let name = reader.optionalString("name", maximumBytes: 100) ?? "requests/\(number)"
        let occasion = occasion(&reader)
        let kinds = kinds(&reader)
        let connections = reader.positions("connections")
        let topics = reader.optionalStrings("topics", maximumCount: 100, maximumBytes: 255)
        let types = pushTypes(&reader)
        let tokens = tokens(&reader)
        let shareOfTokens = reader.share("share_of_tokens")
        let faults = options(&reader) { fault(&$0) }
        reader.finish()
        guard let faults else { return nil }
        return RequestRule(
            name: name, occasion: occasion, kinds: kinds, connections: connections, topics: topics?.map { Array($0.utf8) },
            types: types, tokens: tokens, shareOfTokens: shareOfTokens, faults: faults)
    }

    private static func connection(_ fields: JSONObjectReader, number: Int) -> ConnectionRule? {
        var reader = fields
        let name = reader.optionalString("name", maximumBytes: 100) ?? "connections/\(number)"
        let occasion = occasion(&reader)
        let entrances = options(&reader) { entrance(&$0) }
        reader.finish()
        return entrances.map { ConnectionRule(name: name, occasion: occasion, entrances: $0) }
    }

    private static func event(_ fields: JSONObjectReader, number: Int) -> TimedEvent? {
        var reader = fields
        let name = reader.optionalString("name", maximumBytes: 100) ?? "events/\(number)"
        let at = reader.integer("at_ms", in: 0...Self.longestTime)
        let every = reader.optionalInteger("every_ms", in: 10...Self.longestTime)
        let environment = reader.optionalChoice("environment", of: SimulatorEnvironment.self)
        let effect = eventEffect(&reader)
        reader.finish()
        guard let at, let effect else { return nil }
        return TimedEvent(name: name, at: at, every: every, environment: environment, effect: effect)
    }

    // MARK: Conditions

    /// A week.
    static let longestTime: Int64 = 7 * 86_400_000

    private static func occasion(_ reader: inout JSONObjectReader) -> Occasion {
        let from = reader.optionalInteger("from_ms", in: 0...longestTime) ?? 0
        let until = reader.optionalInteger("until_ms", in: 0...longestTime)
        if let until, until <= from { reader.problem("until_ms", "out_of_range", "must be after from_ms") }
        return Occasion(
            environment: reader.optionalChoice("environment", of: SimulatorEnvironment.self), from: from, until: until ?? .max,
            share: reader.share("share"), every: reader.optionalInteger("every", in: 1...1_000_000_000) ?? 1,
            positions: reader.positions("positions"))
    }

    private static func kinds(_ reader: inout JSONObjectReader) -> [RequestKind]? {
        guard let names = reader.optionalStrings("on", maximumCount: RequestKind.allCases.count, maximumBytes: 30) else { return nil }
        if names.isEmpty { reader.problem("on", "too_short", "at least one kind of request") }
        var kinds: [RequestKind] = []
        for (index, name) in names.enumerated() {
            if let kind = RequestKind(rawValue: name) {
                kinds.append(kind)
            } else {
                reader.problem("on", step: "/\(index)", "unsupported_value", "push, channels or broadcast")
            }
        }
        return kinds
    }

    private static func pushTypes(_ reader: inout JSONObjectReader) -> Set<ServerPushType>? {
        guard let names = reader.optionalStrings("push_types", maximumCount: 20, maximumBytes: 30) else { return nil }
        var types: Set<ServerPushType> = []
        for (index, name) in names.enumerated() {
            if let type = ServerPushType.allCases.first(where: { $0.name == name }) {
                types.insert(type)
            } else {
                reader.problem("push_types", step: "/\(index)", "unsupported_value", "not a push type of APNs")
            }
        }
        return types
    }

    private static func tokens(_ reader: inout JSONObjectReader) -> Set<TokenKey>? {
        guard let texts = reader.optionalStrings("tokens", maximumCount: 10_000, maximumBytes: 2 * TokenKey.maximumBytes) else {
            return nil
        }
        var tokens: Set<TokenKey> = []
        for (index, text) in texts.enumerated() {
            if let token = TokenKey(hex: text) {
                tokens.insert(token)
            } else {
                reader.problem("tokens", step: "/\(index)", "unsupported_value", "not an even number of hex digits")
            }
        }
        return tokens
    }

    /// `do`: one action, or several with weights.
    private static func options<Element>(
        _ reader: inout JSONObjectReader, _ read: (inout JSONObjectReader) -> Element?
    ) -> Choice<Element>? {
        guard let entries = reader.objects("do", maximumCount: 50) else { return nil }
        if entries.isEmpty { reader.problem("do", "too_short", "at least one thing to do") }
        let options = entries.compactMap { fields -> (element: Element, weight: Int64)? in
            var entry = fields
            let weight = entry.optionalInteger("weight", in: 1...1_000_000) ?? 1
            let element = read(&entry)
            entry.finish()
            return element.map { ($0, weight) }
        }
        return options.isEmpty ? nil : Choice(options)
    }
}

extension JSONObjectReader {
    /// More than 0, at most 1; absent is all.
    mutating func share(_ key: String) -> Double {
        guard let value = optionalValue(key) else { return 1 }
        guard let share = value.numberValue else {
            problem(key, "wrong_type", "expected a number, found \(value.typeName)")
            return 1
        }
        if !(share > 0 && share <= 1) { problem(key, "out_of_range", "more than 0, at most 1") }
        return share
    }

    /// Whole numbers from 1.
    mutating func positions(_ key: String) -> Set<Int64>? {
        guard let value = optionalValue(key) else { return nil }
        guard let elements = value.arrayValue, !elements.isEmpty, elements.count <= 10_000 else {
            problem(key, "wrong_type", "expected an array of 1 to 10000 numbers")
            return nil
        }
        var positions: Set<Int64> = []
        for (index, element) in elements.enumerated() {
            if let number = element.integerValue, number >= 1 {
                positions.insert(number)
            } else {
                problem(key, step: "/\(index)", "out_of_range", "a whole number from 1")
            }
        }
        return positions
    }
}

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

    private static func answer(_ reader: inout JSONObjectReader) -> StatusAnswer? {
        let status = reader.integer("status", in: 200...599)
        let reason = reader.optionalString("reason", maximumBytes: 200)
        let timestamp = reader.optionalInteger("timestamp_ms", in: 0...Int64.max)
        let frameBytes = reader.optionalInteger("frame_bytes", in: 1...16_384)
        return status.map { StatusAnswer(status: Int($0), reason: reason, timestamp: timestamp, frameBytes: frameBytes.map { Int($0) }) }
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
        let debug = text.map { Array($0.utf8) } ?? reason.flatMap { StatusAnswer(status: 503, reason: $0).body } ?? []
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

/// The kind of a request, as a scenario's `on` names it.
enum RequestKind: String, Sendable, CaseIterable {
    /// A request to a push port that is not a broadcast.
    case push
    /// A request to a port for channels.
    case channels
    case broadcast
}
