package import StrictJSON

/// `samples.ndjson`: one thing as it was at a moment, about once a second.
package enum SampleRecord: LedgerRecord, Equatable {
    case process(Process)
    case queue(Queue)
    case load(Load)
    case flood(Flood)
    case wire(Wire)
    case table(Table)

    package struct Process: Sendable, Equatable {
        package var at: Int64
        /// `dispatcher-1`; a restart keeps the name and changes the process id.
        package var name: String
        package var id: Int64
        /// Resident bytes.
        package var memory: Int64
        package var descriptors: Int
        /// Of the descriptors: connections that clients have open to it.
        package var clients: Int
        package var threads: Int
        package var isReady: Bool

        package init(
            at: Int64, name: String, id: Int64, memory: Int64, descriptors: Int, clients: Int = 0, threads: Int, isReady: Bool
        ) {
            self.at = at
            self.name = name
            self.id = id
            self.memory = memory
            self.descriptors = descriptors
            self.clients = clients
            self.threads = threads
            self.isReady = isReady
        }
    }

    package struct Queue: Sendable, Equatable {
        package var at: Int64
        package var name: String
        /// Messages, taken ones included.
        package var depth: Int

        package init(at: Int64, name: String, depth: Int) {
            self.at = at
            self.name = name
            self.depth = depth
        }
    }

    /// Sums since the beginning.
    package struct Load: Sendable, Equatable {
        package var at: Int64
        package var answered: Int
        package var accepted: Int
        package var refused: Int
        package var pushes: Int

        package init(at: Int64, answered: Int, accepted: Int, refused: Int, pushes: Int) {
            self.at = at
            self.answered = answered
            self.accepted = accepted
            self.refused = refused
            self.pushes = pushes
        }
    }

    /// One second of a flood of requests to send. Its refusals have no records of their own.
    package struct Flood: Sendable, Equatable {
        /// When the second ended.
        package var at: Int64
        /// Answers 429 and 503 with a `Retry-After`. None of these requests is in the ledger of the clients; every other one is.
        package var shed: Int
        /// Requests that were due and found no connection free.
        package var unsent: Int
        /// The time of the slowest answer among ``shed``, in microseconds.
        package var longest: Int64

        package init(at: Int64, shed: Int, unsent: Int, longest: Int64) {
            self.at = at
            self.shed = shed
            self.unsent = unsent
            self.longest = longest
        }
    }

    /// One link whose client must speak TLS, at the end of the run.
    package struct Wire: Sendable, Equatable {
        package var at: Int64
        /// As `faults.ndjson` names links in its details: `dispatcher-1>rabbitmq`.
        package var name: String
        /// Connections that the client has made.
        package var connections: Int
        /// The connections on which it has sent bytes other than TLS.
        package var inClear: Int

        package init(at: Int64, name: String, connections: Int, inClear: Int) {
            self.at = at
            self.name = name
            self.connections = connections
            self.inClear = inClear
        }
    }

    /// A table of the database, about once a minute and once more at the end.
    package struct Table: Sendable, Equatable {
        package var at: Int64
        package var name: String
        package var rows: Int64
        /// The size with its indexes and its TOAST table.
        package var bytes: Int64

        package init(at: Int64, name: String, rows: Int64, bytes: Int64) {
            self.at = at
            self.name = name
            self.rows = rows
            self.bytes = bytes
        }
    }

    private enum Kind: String { case process, queue, load, flood, wire, table }

    private enum Field: String, CaseIterable {
        case kind, at, name
        case process = "pid"
        case memory = "rss"
        case descriptors, clients, threads
        case isReady = "ready"
        case depth, answered, accepted, refused, pushes
        case shed, unsent, longest
        case connections
        case inClear = "in_clear"
        case rows, bytes
    }
    private static let fields = RecordFields<Field>()

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            switch self {
            case .process(let process):
                object.field(Field.kind, Kind.process)
                object.field(Field.at, process.at)
                object.field(Field.name, process.name)
                object.field(Field.process, process.id)
                object.field(Field.memory, process.memory)
                object.field(Field.descriptors, process.descriptors)
                object.field(Field.clients, process.clients)
                object.field(Field.threads, process.threads)
                object.field(Field.isReady, process.isReady)
            case .queue(let queue):
                object.field(Field.kind, Kind.queue)
                object.field(Field.at, queue.at)
                object.field(Field.name, queue.name)
                object.field(Field.depth, queue.depth)
            case .load(let load):
                object.field(Field.kind, Kind.load)
                object.field(Field.at, load.at)
                object.field(Field.answered, load.answered)
                object.field(Field.accepted, load.accepted)
                object.field(Field.refused, load.refused)
                object.field(Field.pushes, load.pushes)
            case .flood(let flood):
                object.field(Field.kind, Kind.flood)
                object.field(Field.at, flood.at)
                object.field(Field.shed, flood.shed)
                object.field(Field.unsent, flood.unsent)
                object.field(Field.longest, flood.longest)
            case .wire(let wire):
                object.field(Field.kind, Kind.wire)
                object.field(Field.at, wire.at)
                object.field(Field.name, wire.name)
                object.field(Field.connections, wire.connections)
                object.field(Field.inClear, wire.inClear)
            case .table(let table):
                object.field(Field.kind, Kind.table)
                object.field(Field.at, table.at)
                object.field(Field.name, table.name)
                object.field(Field.rows, table.rows)
                object.field(Field.bytes, table.bytes)
            }
        }
    }

    package init(from scanner: inout JSONScanner) throws(JSONError) {
        var (kind, name, isReady): (Kind?, String?, Bool?) = (nil, nil, nil)
        var numbers: [Field: Int64] = [:]
        try Self.fields.read(&scanner) { (field, scanner) throws(JSONError) in
            switch field {
            case .kind: kind = try scanner.choice(field, of: Kind.self)
            case .name: name = try scanner.string()
            case .isReady: isReady = try scanner.bool()
            default: numbers[field] = Int64(try scanner.count(field))
            }
        }
        func number(_ field: Field) throws(JSONError) -> Int64 { try scanner.require(numbers[field], field) }
        switch try scanner.require(kind, Field.kind) {
        case .process:
            self = .process(
                Process(
                    at: try number(.at), name: try scanner.require(name, Field.name), id: try number(.process),
                    memory: try number(.memory), descriptors: Int(try number(.descriptors)), clients: Int(numbers[.clients] ?? 0),
                    threads: Int(try number(.threads)), isReady: try scanner.require(isReady, Field.isReady)))
        case .queue:
            self = .queue(Queue(at: try number(.at), name: try scanner.require(name, Field.name), depth: Int(try number(.depth))))
        case .load:
            self = .load(
                Load(
                    at: try number(.at), answered: Int(try number(.answered)), accepted: Int(try number(.accepted)),
                    refused: Int(try number(.refused)), pushes: Int(try number(.pushes))))
        case .flood:
            self = .flood(
                Flood(
                    at: try number(.at), shed: Int(try number(.shed)), unsent: Int(try number(.unsent)),
                    longest: try number(.longest)))
        case .wire:
            self = .wire(
                Wire(
                    at: try number(.at), name: try scanner.require(name, Field.name), connections: Int(try number(.connections)),
                    inClear: Int(try number(.inClear))))
        case .table:
            self = .table(
                Table(
                    at: try number(.at), name: try scanner.require(name, Field.name), rows: try number(.rows), bytes: try number(.bytes)))
        }
    }
}
