import Postgres
import PushModel
import Synchronization
package import TokenServiceKit

/// A legal but doubtful part of a registration, which is done all the same.
package struct RegistrationWarning: Equatable, Sendable {
    package enum Code: String, CaseIterable, Sendable {
        case unknownTimeZone = "unknown_time_zone"
        case doubtfulLocale = "doubtful_locale"
        case tokenEndedRepeatedly = "token_ended_repeatedly"
    }

    package let code: Code

    package init(_ code: Code) { self.code = code }

    package static let response = ResponseSchema<RegistrationWarning>.object(
        "RegistrationWarning",
        [
            .required("pointer", .text(.string().example("/time_zone")), "Where: a JSON pointer into the registration.") {
                $0.code.pointer
            },
            .required("code", .word) { $0.code },
            .required("detail", .text(), "For people.") { $0.code.detail },
        ])
}

extension RegistrationWarning.Code {
    fileprivate var pointer: String {
        switch self {
        case .unknownTimeZone: "/time_zone"
        case .doubtfulLocale: "/locale"
        case .tokenEndedRepeatedly: "/tokens"
        }
    }

    /// What the warning tells people.
    fileprivate var detail: String {
        switch self {
        case .unknownTimeZone:
            "no time zone of this name is known, so the device counts as UTC; an IANA name such as Europe/Berlin is expected"
        case .doubtfulLocale: "this names no language, so the device gets the default text; a tag such as de_DE or zh-Hant is expected"
        case .tokenEndedRepeatedly:
            """
            APNs has said three times or oftener that a token is over (`ended_by_apns_at`), and it is registered again; the app should \
            forward the token that iOS gives it at each launch, and keep none
            """
        }
    }
}

/// Finds the doubtful parts of registrations. It keeps the names of time zones that the database knows, and reads them again when it meets
/// another name, at most once a minute.
final class RegistrationWarnings: Sendable {
    private static let minimumAge = Duration.seconds(60)

    private struct Names {
        var known: Set<String> = []
        var readAt: ContinuousClock.Instant?
    }

    private let pool: PostgresPool
    private let names = Mutex(Names())

    init(pool: PostgresPool) { self.pool = pool }

    /// One list for each installation as it was registered, in their order; nil for one that was refused. A database that cannot answer
    /// costs the warnings and nothing else.
    func of(_ records: [InstallationRecord?]) async -> [[RegistrationWarning]] {
        let unknown = await unknownTimeZones(among: Set(records.compactMap { $0?.profile.timeZone }))
        return records.map { record in
            guard let record else { return [] }
            let profile = record.profile
            var warnings: [RegistrationWarning] = []
            if let locale = profile.locale, LocaleTag(locale)?.namesLanguage != true { warnings.append(.init(.doubtfulLocale)) }
            if let zone = profile.timeZone, unknown.contains(zone) { warnings.append(.init(.unknownTimeZone)) }
            if record.tokens.contains(where: { $0.retired == nil && $0.isEndedRepeatedly }) {
                warnings.append(.init(.tokenEndedRepeatedly))
            }
            return warnings
        }
    }

    private func unknownTimeZones(among stated: Set<String>) async -> Set<String> {
        let (missing, isFresh) = names.withLock { names in
            // Not `subtracting`, which goes through the thousand known ones.
            (stated.filter { !names.known.contains($0) }, names.readAt.map { .now - $0 < Self.minimumAge } ?? false)
        }
        guard !missing.isEmpty, !isFresh else { return missing }
        guard
            let known: [String] = try? await pool.session({ session in
                try session.execute("SELECT name FROM time_zones").column("name")
            })
        else { return [] }
        names.withLock { $0 = Names(known: Set(known), readAt: .now) }
        return stated.subtracting(known)
    }
}
