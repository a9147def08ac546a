package import StrictJSON

extension RunRecord {
    private enum Field: String, CaseIterable {
        case seed, size, scenario, commit, command
        case deliberateFault = "deliberate_fault"
        case beganAt = "began_at"
        case drainedAt = "drained_at"
        case endedAt = "ended_at"
        case inFlightBound = "in_flight_bound"
        case grace, recovery, settling, lateness
        case connectionsPerSecond = "connections_per_second"
        case answerWithin = "answer_within"
        case resumeWithin = "resume_within"
        case judgesRefusals = "judges_refusals"
        case emptyAtRest = "empty_at_rest"
        case memory, apps
    }
    private static let fields = RecordFields<Field>()

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field(Field.seed, seed)
            object.field(Field.size, size)
            object.field(Field.scenario, scenario)
            object.field(Field.commit, commit)
            object.field(Field.command, command)
            object.field(Field.deliberateFault, deliberateFault)
            object.field(Field.beganAt, beganAt)
            object.field(Field.drainedAt, drainedAt)
            object.field(Field.endedAt, endedAt)
            object.field(Field.inFlightBound, inFlightBound)
            object.field(Field.grace, grace)
            object.field(Field.recovery, recovery)
            object.field(Field.settling, settling)
            object.field(Field.lateness, lateness)
            object.field(Field.connectionsPerSecond, connectionsPerSecond)
            object.field(Field.answerWithin, answerWithin)
            object.field(Field.resumeWithin, resumeWithin)
            object.field(Field.judgesRefusals, judgesRefusals)
            object.field(Field.emptyAtRest.rawValue, emptyAtRest)
            object.array(Field.memory.rawValue) { list in for entry in memory { entry.write(to: &list) } }
            object.array(Field.apps.rawValue) { list in for app in apps { app.write(to: &list) } }
        }
    }

    package init(from scanner: inout JSONScanner) throws(JSONError) {
        self.init(seed: 0, size: "", commit: "", command: "", beganAt: 0, inFlightBound: 0, memory: [], apps: [])
        var seen: Set<Field> = []
        try Self.fields.read(&scanner) { (field, scanner) throws(JSONError) in
            seen.insert(field)
            switch field {
            case .seed: seed = try scanner.integer()
            case .size: size = try scanner.string()
            case .scenario: scenario = try scanner.string()
            case .commit: commit = try scanner.string()
            case .command: command = try scanner.string()
            case .deliberateFault: deliberateFault = try scanner.string()
            case .beganAt: beganAt = try scanner.integer()
            case .drainedAt: drainedAt = try scanner.integer()
            case .endedAt: endedAt = try scanner.integer()
            case .inFlightBound: inFlightBound = try scanner.count(field)
            case .grace: grace = try scanner.integer()
            case .recovery: recovery = try scanner.integer()
            case .settling: settling = try scanner.integer()
            case .lateness: lateness = try scanner.integer()
            case .connectionsPerSecond: connectionsPerSecond = try scanner.count(field)
            case .answerWithin: answerWithin = try scanner.integer()
            case .resumeWithin: resumeWithin = try scanner.integer()
            case .judgesRefusals: judgesRefusals = try scanner.bool()
            case .emptyAtRest: emptyAtRest = try scanner.list { (scanner) throws(JSONError) in try scanner.string() }
            case .memory: memory = try scanner.list { (scanner) throws(JSONError) in try Memory(from: &scanner) }
            case .apps: apps = try scanner.list { (scanner) throws(JSONError) in try App(from: &scanner) }
            }
        }
        for field in [Field.seed, .size, .commit, .command, .beganAt, .inFlightBound, .memory, .apps] {
            _ = try scanner.require(seen.contains(field) ? true : nil, field)
        }
    }
}

extension RunRecord.App {
    private enum Field: String, CaseIterable {
        case slug
        case bundleID = "bundle_id"
        case tokenPrefix = "token_prefix"
        case isSingle = "single"
    }
    private static let fields = RecordFields<Field>()

    func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field(Field.slug, slug)
            object.field(Field.bundleID, bundleID)
            object.field(Field.tokenPrefix, tokenPrefix)
            object.field(Field.isSingle, isSingle)
        }
    }

    init(from scanner: inout JSONScanner) throws(JSONError) {
        var (slug, bundleID, tokenPrefix, isSingle): (String?, String?, String?, Bool?) = (nil, nil, nil, nil)
        try Self.fields.read(&scanner) { (field, scanner) throws(JSONError) in
            switch field {
            case .slug: slug = try scanner.string()
            case .bundleID: bundleID = try scanner.string()
            case .tokenPrefix: tokenPrefix = try scanner.string()
            case .isSingle: isSingle = try scanner.bool()
            }
        }
        self.init(
            slug: try scanner.require(slug, Field.slug), bundleID: try scanner.require(bundleID, Field.bundleID),
            tokenPrefix: try scanner.require(tokenPrefix, Field.tokenPrefix), isSingle: try scanner.require(isSingle, Field.isSingle))
    }
}

extension RunRecord.Memory {
    private enum Field: String, CaseIterable { case process, bytes }
    private static let fields = RecordFields<Field>()

    func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field(Field.process, process)
            object.field(Field.bytes, bytes)
        }
    }

    init(from scanner: inout JSONScanner) throws(JSONError) {
        var (process, bytes): (String?, Int64?) = (nil, nil)
        try Self.fields.read(&scanner) { (field, scanner) throws(JSONError) in
            switch field {
            case .process: process = try scanner.string()
            case .bytes: bytes = try scanner.integer()
            }
        }
        self.init(process: try scanner.require(process, Field.process), bytes: try scanner.require(bytes, Field.bytes))
    }
}
