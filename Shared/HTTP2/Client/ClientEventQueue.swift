/// A client connection's events, oldest first.
///
/// Most answers are a status and no other wanted data: of those it keeps only numbers, one note for answer and end.
struct ClientEventQueue {
    private struct Note {
        /// 0: the next of `others`.
        let stream: Int32
        let status: Int32
    }

    private var notes: [Note] = []
    private var others: [HTTP2ClientEvent] = []

    var isEmpty: Bool { notes.isEmpty }

    mutating func append(_ event: HTTP2ClientEvent) {
        notes.append(Note(stream: 0, status: 0))
        others.append(event)
    }

    /// A whole answer to a whole request: no body, no wanted header, ended without an error.
    mutating func append(answered stream: Int32, status: Int32) {
        notes.append(Note(stream: stream, status: status))
    }

    mutating func removeAll() {
        notes.removeAll(keepingCapacity: true)
        if !others.isEmpty { others.removeAll(keepingCapacity: true) }
    }

    func forEach<E: Error>(_ body: (HTTP2ClientNote) throws(E) -> Void) throws(E) {
        var next = 0
        for note in notes {
            if note.stream != 0 {
                try body(.answered(stream: note.stream, status: Int(note.status)))
            } else {
                try body(.event(others[next]))
                next += 1
            }
        }
    }
}

/// An event, or in short the two events of a stream that had an answer without a body and has ended.
package enum HTTP2ClientNote: Sendable {
    /// The whole answer, of which only the status is wanted.
    case answered(stream: Int32, status: Int)
    case event(HTTP2ClientEvent)
}
