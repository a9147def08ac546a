package import Postgres
package import PushModel
package import TokenServiceApps

/// One event of an installation: a line in the answer to "why did this user stop getting pushes".
package struct HistoryEntry: Equatable, Sendable {
    package enum Event: String, CaseIterable, Sendable {
        /// The installation registered for the first time, or again after a deregistration.
        case registered
        case signedIn = "signed_in"
        /// `reason` is why: logout, superseded, another_user.
        case signedOut = "signed_out"
        case deregistered
        case tokenAdded = "token_added"
        case tokenMovedHere = "token_moved_here"
        case tokenMovedAway = "token_moved_away"
        case tokenReplaced = "token_replaced"
        /// A registration, which is full state, no longer named it.
        case tokenRemoved = "token_removed"
        /// APNs refused it; `status`, `reason` and `apnsTimestamp` are its answer.
        case tokenRetired = "token_retired"
        /// No activity was reported after several starts that APNs accepted (rule 11 of `docs/registration.md`).
        case tokenDoubtful = "token_doubtful"
        case tokenQuarantined = "token_quarantined"
        case tokenRestored = "token_restored"
        case environmentCorrected = "environment_corrected"
        case throttled
        case stale
    }

    package var app: App.ID
    package var installation: PushID
    package var event: Event
    /// UNIX milliseconds.
    package var at: Int64
    package var ownerEpoch: Int64?
    package var owner: String?
    package var token: Token?
    /// The installation that a token came from or went to.
    package var otherInstallation: PushID?
    package var status: Int32?
    package var reason: String?
    /// UNIX milliseconds.
    package var apnsTimestamp: Int64?
    package var delivery: PushID?

    /// Never the token itself: history outlives it.
    package struct Token: Equatable, Sendable {
        package var id: Int64?
        package var hint: String
        package var environment: String
        package var purpose: String

        package init(id: Int64?, hint: String, environment: String, purpose: String) {
            self.id = id
            self.hint = hint
            self.environment = environment
            self.purpose = purpose
        }
    }

    package init(app: App.ID, installation: PushID, event: Event, at: Int64) {
        self.app = app
        self.installation = installation
        self.event = event
        self.at = at
    }
}

/// The table `installation_history`.
package enum HistoryStore {
    package static func append(_ entries: [HistoryEntry]) -> PostgresQuery {
        """
        INSERT INTO installation_history (app_id, installation, at, event, owner_epoch, owner, token_id, token_hint, environment,
            purpose, other_installation, status, reason, apns_timestamp, delivery)
        SELECT * FROM unnest(
            \(entries.map(\.app))::bigint[], \(entries.map(\.installation))::uuid[], \(milliseconds: entries.map(\.at))::timestamptz[],
            \(entries.map(\.event.rawValue))::text[], \(entries.map(\.ownerEpoch))::bigint[], \(entries.map(\.owner))::text[],
            \(entries.map(\.token?.id))::bigint[], \(entries.map(\.token?.hint))::text[], \(entries.map(\.token?.environment))::text[],
            \(entries.map(\.token?.purpose))::text[], \(entries.map(\.otherInstallation))::uuid[], \(entries.map(\.status))::int[],
            \(entries.map(\.reason))::text[], \(milliseconds: entries.map(\.apnsTimestamp))::timestamptz[],
            \(entries.map(\.delivery))::uuid[])
        """
    }
}
