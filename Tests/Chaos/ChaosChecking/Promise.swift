/// The promises that the checker judges. Each has a row in the report, and any finding breaks the run.
package enum Promise: String, Sendable, CaseIterable {
    case lost
    case stuck
    case duplicated = "unexplained duplicates"
    case overBound = "duplicates above a kill's bound"
    case phantom
    case early = "before its time"
    case crossApp = "cross-app"
    case afterLogout = "after logout"
    case afterExpiry = "after expiry"
    case afterCancel = "after cancel"
    case afterHold = "during a hold"
    case overtaken = "Live Activities out of order"
    case lockScreens = "wrong lock screens"
    case wronglyRetired = "wrongly retired"
    case ownership = "two owners"
    case counters
    case idempotency = "two for one key"
    case memory
    case growth
    case tables = "table growth"
    case connections = "reconnect storms"
    case refusals = "refused without a fault"
    case internalErrors = "answered 500"
    case slowAnswers = "answered too late"
    case inClear = "sent in the clear"
    case unkindRefusals = "shed without Retry-After"
    case goodput = "goodput under overload"
    case standstill = "stood still too long"

    /// A short text for people: the event that breaks it.
    var meaning: String {
        switch self {
        case .lost: "202, and neither a push nor an end that is explained"
        case .stuck: "202, and no end"
        case .duplicated: "handed to APNs twice, and no dispatcher or connection had died"
        case .overBound: "more than were in flight when a dispatcher was killed"
        case .phantom: "a push without a request"
        case .early: "a push before its not_before"
        case .crossApp: "a push with another app's topic or device"
        case .afterLogout: "a push for a user who had left the device more than a second ago"
        case .afterExpiry: "a push after its expiry"
        case .afterCancel: "a push more than a second after its cancellation was answered"
        case .afterHold: "a push more than a second after a hold was answered, and before it was lifted"
        case .overtaken: "a state of a Live Activity after a newer one on the same device"
        case .lockScreens: "a Live Activity that ends as something else than its newest state, or is left over"
        case .wronglyRetired: "a token retired without APNs' word about this registration"
        case .ownership: "a token at two installations, a wrong owner, or an epoch that went back"
        case .counters: "counters, receipts and APNs disagree"
        case .idempotency: "one Idempotency-Key, two notifications"
        case .memory: "a process above its memory limit"
        case .growth: "a process that takes more the longer it lives"
        case .tables: "a table that takes more than its rows ask for, or keeps what is done"
        case .connections: "more new connections to APNs in a second than allowed"
        case .refusals: "5xx or no answer where no fault explains it"
        case .internalErrors: "an internal error, which no fault excuses"
        case .slowAnswers: "a request that took longer than any may"
        case .inClear: "something else than TLS to a server that must be spoken TLS to"
        case .unkindRefusals: "429 or 503 that does not say when to come back"
        case .standstill: "nothing was sent, or not what could be, for longer than a lost machine excuses, though something waited"
        case .goodput: "less than four fifths of what it can do, while it was asked for more"
        }
    }
}
