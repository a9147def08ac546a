internal import CPostgres

/// One round trip in pipeline mode: `[BEGIN] [PREPARE] EXECUTE … SYNC`. Only the answer to SYNC means that it happened: a later error may
/// still roll back a `PGRES_COMMAND_OK` before it (PostgreSQL: libpq, Pipeline Mode).
struct PostgresBatch {
    private enum Step {
        case command(String)
        case prepare(PreparedStatements.Entry, PostgresQuery)
        case execute(PreparedStatements.Entry)
    }

    /// The result of a batch that was answered in full.
    struct Answer {
        /// One per executed statement, in order; complete only when `failure` is empty.
        var rows: [PostgresRows] = []
        /// The command tags of plain commands, such as COMMIT's.
        var tags: [String] = []
        var failure = FailureReport()
        /// The SYNC left, so the server may have acted on it.
        var isSent = false
        /// The SYNC was answered: the connection can go on, and without `failure` every statement took effect.
        var isSynchronised = false
    }

    private let link: PostgresLink
    private var steps: [Step] = []
    private var isRefused = false

    init(on link: PostgresLink) {
        self.link = link
        isRefused = !link.enterPipeline()
    }

    /// The entries that were prepared before this batch: if the server no longer knows them, they can be prepared again.
    private(set) var reused: Set<String> = []

    mutating func add(command: String) {
        guard !isRefused else { return }
        isRefused = !link.sendCommand(command)
        steps.append(.command(command))
    }

    /// `block` holds the query's encoded parameters. They are encoded before, because a batch that was begun has to be finished.
    mutating func add(_ query: PostgresQuery, _ block: ParameterBlock) {
        guard !isRefused else { return }
        let entry: PreparedStatements.Entry
        if let known = pending(query) {
            entry = known
        } else if let known = link.prepared.entry(for: query) {
            entry = known
            reused.insert(entry.name)
        } else {
            entry = link.prepared.makeEntry(for: query)
            isRefused = !link.sendPrepare(name: entry.name, query.sql, types: entry.types)
            steps.append(.prepare(entry, query))
        }
        guard !isRefused else { return }
        isRefused = !link.sendExecute(name: entry.name, block)
        steps.append(.execute(entry))
    }

    /// Finds the same statement earlier in this batch.
    private func pending(_ query: PostgresQuery) -> PreparedStatements.Entry? {
        for case .prepare(let entry, let prepared) in steps where prepared.sql == query.sql {
            if entry.fits(query.parameters) { return entry }
        }
        return nil
    }
}

extension PostgresBatch {
    /// Sends SYNC and reads until its answer, or until the connection is gone.
    /// - Throws: ``AnswerOverdue``; the link is abandoned then.
    mutating func finish(deadline: Deadline) throws(AnswerOverdue) -> Answer {
        var answer = Answer()
        isRefused = isRefused || !link.sendSync()
        if isRefused {
            // libpq refuses to send only on a connection that is broken, or out of memory.
            answer.failure.note(link.errorMessage)
            link.abandon()
            return answer
        }
        answer.isSent = true
        do throws(AnswerOverdue) {
            try read(into: &answer, deadline: deadline)
        } catch {
            link.abandon()
            throw error
        }
        guard answer.isSynchronised else {
            answer.failure.note(link.errorMessage)
            link.abandon()
            return answer
        }
        if !link.exitPipeline() { link.abandon() }
        return answer
    }

    private func read(into answer: inout Answer, deadline: Deadline) throws(AnswerOverdue) {
        var step = 0
        while !answer.isSynchronised, !link.isAbandoned {
            guard let result = try link.nextResult(deadline: deadline) else {
                guard link.isAlive else { return }
                step += 1
                // One nil ends each step; more of them would mean that libpq and this code disagree about the position.
                if step > steps.count { return }
                continue
            }
            if result.status == PGRES_PIPELINE_SYNC {
                answer.isSynchronised = true
            } else if step < steps.count {
                note(result, of: steps[step], in: &answer)
            } else {
                answer.failure.note(result)
            }
        }
    }

    private func note(_ result: PostgresResult, of step: Step, in answer: inout Answer) {
        switch result.status {
        case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY:
            switch step {
            case .command: answer.tags.append(result.commandTag)
            case .prepare(let entry, let query): link.prepared.insert(entry, for: query)
            case .execute: answer.rows.append(PostgresRows(result))
            }
        case PGRES_PIPELINE_ABORTED: break
        case PGRES_FATAL_ERROR, PGRES_BAD_RESPONSE: answer.failure.note(result)
        default:
            // This code cannot answer COPY; the connection is stuck in it.
            answer.failure.note("COPY is not a statement for execute")
            link.abandon()
        }
    }
}

/// The statements that one connection has prepared: name by text and parameter types.
///
/// A NULL has its type too, so a statement normally has one entry, whether its optional parameters are NULL or not. The literals in the
/// program bound the number of entries, so none is ever evicted.
struct PreparedStatements {
    struct Entry {
        let name: String
        let types: [PostgresType]

        func fits(_ parameters: [PostgresValue]) -> Bool { types.elementsEqual(parameters.lazy.map(\.type)) }
    }

    private var entries: [String: [Entry]] = [:]
    private var made = 0

    func entry(for query: PostgresQuery) -> Entry? { entries[query.sql]?.first { $0.fits(query.parameters) } }

    /// A name that this connection has not used: a hash of the text, so that the server's logs show the same one everywhere, and a count.
    mutating func makeEntry(for query: PostgresQuery) -> Entry {
        made += 1
        return Entry(name: "push_\(Self.fingerprint(query.sql))_\(made)", types: query.parameters.map(\.type))
    }

    mutating func insert(_ entry: Entry, for query: PostgresQuery) { entries[query.sql, default: []].append(entry) }

    mutating func remove(_ names: some Sequence<String>) {
        let names = Set(names)
        for key in entries.keys { entries[key]?.removeAll { names.contains($0.name) } }
    }

    /// FNV-1a.
    private static func fingerprint(_ sql: String) -> String {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in sql.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
        return String(hash, radix: 16)
    }
}
