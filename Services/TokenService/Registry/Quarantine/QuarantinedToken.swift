package import PushModel
import StrictJSON
import TokenServiceApps
import TokenServiceKit

/// A token that was retired as rejected while, as was found afterwards, the fault was ours. Times are UNIX milliseconds.
package struct QuarantinedToken: Equatable, Sendable {
    package var id: Int64
    package var installation: PushID
    package var hint: String
    package var environment: String
    package var purpose: String
    package var retiredAt: Int64
    package var quarantinedAt: Int64
}

extension QuarantineRestore {
    /// Installations that one request may name.
    private static let maximumNamed = 1000

    static let request = JSONSchema.request(
        "Restoration",
        [.optional("installations", .array(.uuid, minimum: 1, maximum: maximumNamed), "Only theirs; all where it is left out.")])

    static let response = ResponseSchema<Result>.object(
        "RestorationResult",
        [
            .required("restored", .count) { $0.restored },
            .required("superseded", .count, "Left alone: the installation has a newer token, or as many as it may have.") { $0.superseded },
            .required("remaining", .count, "Still in the quarantine, counted to 100,000.") { $0.remaining },
        ])

    /// - Returns: `.some(nil)` where none are named, which means all of them.
    static func installations(_ body: inout JSONObjectReader) -> [PushID]?? {
        let isNamed = body.has("installations")
        let texts = isNamed ? body.strings("installations", maximumCount: maximumNamed, maximumBytes: 36) : nil
        body.finish()
        guard isNamed else { return .some(nil) }
        guard let texts else { return nil }
        if texts.isEmpty { body.problem("installations", "too_short", "at least one; leave the field out to restore all") }
        let ids = texts.enumerated().compactMap { index, text in
            let id = PushID(text)
            if id == nil { body.problem("installations", step: "/\(index)", "invalid_id", "a UUID") }
            return id
        }
        return ids
    }
}

extension QuarantinedToken {
    static let page = ResponseSchema<(page: QuarantineStore.Page, nextCursor: String?)>.object(
        "Quarantine",
        [
            .required("total", .count, "In the whole quarantine, counted to 100,000.") { $0.page.total },
            .required("tokens", .array(response)) { $0.page.tokens },
            .nextCursor { $0.nextCursor },
        ])

    private static let response = ResponseSchema<QuarantinedToken>.object(
        "QuarantinedToken",
        [
            .required("installation", .uuid) { $0.installation },
            .required("hint", .text(.tokenHint)) { $0.hint },
            .required("environment", .text(.environment)) { $0.environment },
            .required("purpose", .text(.purpose)) { $0.purpose },
            .required("retired_at", .time) { $0.retiredAt },
            .required("quarantined_at", .time) { $0.quarantinedAt },
        ])
}
