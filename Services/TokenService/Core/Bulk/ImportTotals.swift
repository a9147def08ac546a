import NIOCore
import PushModel
import StrictJSON

/// What an import has done so far.
package struct ImportTotals: Equatable, Sendable {
    /// The last line that was dealt with.
    package var through: Int
    package var created = 0
    package var updated = 0
    package var failed = 0

    package init(through: Int) { self.through = through }

    mutating func add(_ answer: ImportAnswer, lines: [ImportLine]) {
        through = lines.last?.number ?? through
        created += answer.created
        updated += answer.updated
        failed += answer.failures.count
    }
}

/// What became of one chunk.
struct ImportAnswer {
    var created = 0
    var updated = 0
    /// In the lines' order.
    var failures: [(line: Int, fault: BulkFault)] = []

    mutating func count(isNew: Bool) {
        if isNew { created += 1 } else { updated += 1 }
    }
}

/// The answer to an import, line by line.
struct JSONLines {
    private(set) var buffer = ByteBuffer()

    mutating func line(_ write: (inout JSONWriter) -> Void) {
        var writer = JSONWriter()
        writer.object(write)
        buffer.writeBytes(writer.bytes)
        buffer.writeInteger(UInt8(ascii: "\n"))
    }

    mutating func failures(_ answer: ImportAnswer) {
        for (number, fault) in answer.failures {
            line { object in
                object.field("line", number)
                if let id = fault.id { object.field("id", id.description) } else { object.null("id") }
                object.name("error")
                fault.write(to: &object)
            }
        }
    }

    mutating func progress(_ totals: ImportTotals) {
        line { object in totals.write(to: &object) }
    }

    mutating func done(_ totals: ImportTotals) {
        line { object in
            object.field("done", true)
            totals.write(to: &object)
        }
    }

    /// The last line of a stream that could not go on; it says from where to go on.
    mutating func broken(_ fault: BulkFault, _ totals: ImportTotals) {
        line { object in
            object.name("error")
            fault.write(to: &object)
            totals.write(to: &object)
        }
    }
}

extension ImportTotals {
    fileprivate func write(to object: inout JSONWriter) {
        object.field("through", through)
        object.field("created", created)
        object.field("updated", updated)
        object.field("failed", failed)
    }
}
