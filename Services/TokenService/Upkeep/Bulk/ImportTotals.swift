import PushModel
import StrictJSON
import TokenServiceKit
import TokenServiceRegistry

/// The counts of an import so far.
package struct ImportTotals: Equatable, Sendable {
    /// The last line that was dealt with.
    package var through: Int
    package var created = 0
    package var updated = 0
    package var failed = 0
    /// Of the others, lines of which a part is doubtful.
    package var doubtful = 0

    package init(through: Int) { self.through = through }

    mutating func add(_ answer: ImportAnswer, lines: [ImportLine]) {
        through = lines.last?.number ?? through
        created += answer.created
        updated += answer.updated
        failed += answer.failures.count
        doubtful += answer.warnings.count
    }
}

/// The result of one chunk.
struct ImportAnswer {
    var created = 0
    var updated = 0
    /// In the lines' order.
    var failures: [(line: Int, fault: BulkFault)] = []
    /// In the lines' order: those of which a part is doubtful.
    var warnings: [(line: Int, id: PushID, warnings: [RegistrationWarning])] = []

    mutating func count(isNew: Bool) {
        if isNew { created += 1 } else { updated += 1 }
    }
}

extension ImportTotals {
    static let fields: [ResponseSchema<ImportTotals>.Field] = [
        .required("through", .count, "The last line that is done with.") { $0.through },
        .required("created", .count) { $0.created },
        .required("updated", .count) { $0.updated },
        .required("failed", .count) { $0.failed },
        .required("doubtful", .count, "Lines that are registered and have warnings.") { $0.doubtful },
    ]
}
