import PushModel
import Testing
import TokenServiceRegistry

@Suite("The sentence that explains an installation's state")
struct ReachabilityTests {
    private static let day: Int64 = 86_400_000
    /// 2026-01-01T00:00:00Z
    private static let start: Int64 = 1_767_225_600_000

    private static func state(signedIn: Bool = true, tokens: [ReachabilityState.Token] = []) -> ReachabilityState {
        ReachabilityState(isSignedIn: signedIn, registeredAt: start, tokens: tokens)
    }

    private static func retired(_ reason: String, day: Int64 = 1, quarantined: Bool = false) -> ReachabilityState.Token {
        ReachabilityState.Token(
            id: 1, hint: "…00beef", environment: "production", purpose: "alert", registeredAt: start,
            retired: .init(at: start + day * Self.day, reason: reason, quarantinedAt: quarantined ? start + day * Self.day : nil))
    }

    private static func entry(_ event: HistoryEntry.Event, day: Int64 = 1, _ more: (inout HistoryEntry) -> Void = { _ in }) -> HistoryEntry
    {
        var entry = HistoryEntry(app: 1, installation: PushID(high: 1, low: 1), event: event, at: start + day * Self.day)
        more(&entry)
        return entry
    }

    private static func sentence(_ state: ReachabilityState?, _ recent: [HistoryEntry] = []) -> String {
        let reachability = Reachability(state, recent: recent)
        #expect(reachability.isReachable == reachability.explanation.hasPrefix("Reachable"))
        return reachability.explanation
    }

    @Test(
        "Signed out: when and why, as far as history knows",
        arguments: [
            ("logout", "logout"), ("superseded", "superseded: the user signed in on installation \(PushID(high: 2, low: 2))"),
            ("stale", "stale: no registration for too long"),
            ("erased", "its user's data was erased"),
        ])
    func signedOut(reason: String, words: String) {
        var state = Self.state(signedIn: false)
        state.signedOutReason = reason
        let entry = Self.entry(.signedOut) { $0.otherInstallation = PushID(high: 2, low: 2) }
        #expect(Self.sentence(state, [entry]) == "Signed out on 2026-01-02T00:00:00.000Z (\(words)).")
        #expect(Self.sentence(state).hasPrefix("Signed out ("))
    }

    @Test("Never signed in") func anonymous() {
        #expect(
            Self.sentence(Self.state(signedIn: false))
                == "No user is signed in: it was registered without a user on 2026-01-01T00:00:00.000Z.")
    }

    @Test(
        "A retired token: by whom",
        arguments: [
            ("removed", "was retired on 2026-01-02T00:00:00.000Z: the registration of that moment no longer named it"),
            ("replaced", "was replaced on 2026-01-02T00:00:00.000Z and nothing took its place"),
            ("stale", "was retired on 2026-01-02T00:00:00.000Z: no registration for too long"),
            ("gone", "was retired on 2026-01-02T00:00:00.000Z: APNs said that it is gone"),
            ("rejected", "was retired on 2026-01-02T00:00:00.000Z: APNs rejected it"),
        ])
    func retiredToken(reason: String, words: String) {
        #expect(Self.sentence(Self.state(tokens: [Self.retired(reason)])) == "Its alert token …00beef \(words).")
    }

    @Test("APNs' own words, of this token and no other") func words() {
        let other = Self.entry(.tokenRetired, day: 3) {
            $0.token = .init(id: 2, hint: "…00cafe", environment: "sandbox", purpose: "alert")
            $0.status = 400
            $0.reason = "BadDeviceToken"
        }
        let own = Self.entry(.tokenRetired) {
            $0.token = .init(id: nil, hint: "…00beef", environment: "production", purpose: "alert")
            $0.status = 410
            $0.reason = "ExpiredToken"
            $0.apnsTimestamp = Self.start
        }
        #expect(
            Self.sentence(Self.state(tokens: [Self.retired("gone")]), [other, own])
                == """
                Its alert token …00beef was retired on 2026-01-02T00:00:00.000Z: APNs answered 410 ExpiredToken since \
                2026-01-01T00:00:00.000Z.
                """
        )
    }

    @Test("Quarantine says that it was the brake") func quarantine() {
        let rejected = Self.entry(.tokenRetired) {
            $0.token = .init(id: 1, hint: "…00beef", environment: "production", purpose: "alert")
            $0.status = 400
            $0.reason = "BadDeviceToken"
        }
        #expect(
            Self.sentence(Self.state(tokens: [Self.retired("rejected", quarantined: true)]), [rejected])
                == """
                Its alert token …00beef is in quarantine since 2026-01-02T00:00:00.000Z, because too many tokens were rejected at \
                once: APNs answered 400 BadDeviceToken.
                """
        )
    }

    @Test("The last thing that happened to an alert token counts: moved away, or retired after that") func moved() {
        let away = Self.entry(.tokenMovedAway, day: 2) {
            $0.token = .init(id: 9, hint: "…00f00d", environment: "production", purpose: "alert")
            $0.otherInstallation = PushID(high: 2, low: 2)
        }
        #expect(
            Self.sentence(Self.state(tokens: [Self.retired("replaced")]), [away])
                == "Its alert token …00f00d moved to installation \(PushID(high: 2, low: 2)) on 2026-01-03T00:00:00.000Z.")
        #expect(Self.sentence(Self.state(tokens: [Self.retired("gone", day: 3)]), [away]).hasPrefix("Its alert token …00beef was retired"))
    }

    @Test("No token at all") func tokenless() {
        #expect(
            Self.sentence(Self.state()) == "It has no alert token: its registration of 2026-01-01T00:00:00.000Z named none.")
    }

    @Test(
        "What the device shows of an alert: in a word, and in a sentence where that is not everything",
        arguments: [
            (.authorized, .fully, ""), (.ephemeral, .fully, ""), (nil, .unknown, ""),
            (
                .provisional, .quietly,
                " It shows alerts quietly now, in Notification Center only: the permission is provisional, as the app last reported."
            ),
            (.denied, .notAtAll, " It shows nothing now: the person has denied notifications, as the app last reported."),
            (
                .notDetermined, .notAtAll,
                " It shows nothing now: the app has not asked the person for the permission yet, as the app last reported."
            ),
        ] as [(Permission?, AlertDisplay, String)])
    func permission(permission: Permission?, display: AlertDisplay, sentence: String) {
        let active = ReachabilityState.Token(
            id: 3, hint: "…00abcd", environment: "sandbox", purpose: "alert", registeredAt: Self.start, retired: nil)
        var state = Self.state(tokens: [active])
        state.permission = permission
        #expect(Reachability(state, recent: []).display == display)
        #expect(
            Self.sentence(state)
                == "Reachable: signed in, with an active alert token; it last registered on 2026-01-01T00:00:00.000Z.\(sentence)")
        // What it would show is no matter where nothing comes.
        state.tokens = []
        #expect(!Self.sentence(state).contains("shows"))
    }

    @Test("Reachable, with what may be in the way") func reachable() {
        let active = ReachabilityState.Token(
            id: 3, hint: "…00abcd", environment: "sandbox", purpose: "alert", registeredAt: Self.start, retired: nil)
        var state = Self.state(tokens: [Self.retired("replaced"), active])
        #expect(
            Self.sentence(state) == "Reachable: signed in, with an active alert token; it last registered on 2026-01-01T00:00:00.000Z.")
        state.staleSince = Self.start + Self.day
        #expect(Self.sentence(state).hasPrefix("Reachable as far as is known, but stale since 2026-01-02"))
        state.throttledUntil = Self.start + Self.day
        #expect(Self.sentence(state) == "Reachable, but APNs asked to leave it alone until 2026-01-02T00:00:00.000Z.")
        state.rejection = .init(hint: "…00abcd", at: Self.start + 2 * Self.day, answer: "400 BadDeviceToken")
        #expect(
            Self.sentence(state) == """
                Reachable as far as its registration of 2026-01-01T00:00:00.000Z goes, but APNs rejected its alert token …00abcd (400 \
                BadDeviceToken) on 2026-01-03T00:00:00.000Z, and nothing newer is stored.
                """)
        #expect(Reachability(state, recent: []).rejectedAt == Self.start + 2 * Self.day)
        state.rejection = nil
        state.permission = .denied
        #expect(
            Self.sentence(state)
                == """
                Reachable, but APNs asked to leave it alone until 2026-01-02T00:00:00.000Z. It shows nothing now: the person has \
                denied notifications, as the app last reported.
                """
        )
        state.deregisteredAt = Self.start
        #expect(Self.sentence(state) == "Deregistered on 2026-01-01T00:00:00.000Z.")
    }
}
