import NIOCore
import PushModel
import StrictJSON

/// The answer to an import or an export, line by line.
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
