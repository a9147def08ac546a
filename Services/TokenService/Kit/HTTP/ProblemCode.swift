package import HTTPTypes

/// Every word that the `code` of a problem document can be. ``kind`` is the one place that says what it means and how it is answered.
package enum ProblemCode: String, CaseIterable, Sendable {
    case malformedJSON = "malformed_json"
    case invalidRequest = "invalid_request"
    case invalidID = "invalid_id"
    case invalidPath = "invalid_path"
    case outOfRange = "out_of_range"
    case invalidCursor = "invalid_cursor"
    case cursorOfAnotherList = "cursor_of_another_list"
    case unknownParameter = "unknown_parameter"
    case repeatedParameter = "repeated_parameter"
    case unsupportedValue = "unsupported_value"
    case invalidTime = "invalid_time"
    case invalidEncoding = "invalid_encoding"
    case invalidEntityTag = "invalid_entity_tag"
    case invalidIdempotencyKey = "invalid_idempotency_key"
    case httpError = "http_error"
    case unauthenticated
    case credentialExpired = "credential_expired"
    case forbidden
    case credentialRevoked = "credential_revoked"
    case laneNotAllowed = "lane_not_allowed"
    case notFound = "not_found"
    case methodNotAllowed = "method_not_allowed"
    case bodyTimeout = "body_timeout"
    case activityExists = "activity_exists"
    case activityOver = "activity_over"
    case appDiffers = "app_differs"
    case environmentInUse = "environment_in_use"
    case keyNotLive = "key_not_live"
    case keyAlreadyRotated = "key_already_rotated"
    case ownerMismatch = "owner_mismatch"
    case tooManyHolds = "too_many_holds"
    case deviceCredentialsOff = "device_credentials_off"
    case deadLettersBusy = "dead_letters_busy"
    case tooManyWebhooks = "too_many_webhooks"
    case webhookDisabled = "webhook_disabled"
    case activityNotSingle = "activity_not_single"
    case channelDiffers = "channel_differs"
    case channelInUse = "channel_in_use"
    case channelDeleting = "channel_deleting"
    case channelLost = "channel_lost"
    case channelNotOpen = "channel_not_open"
    case channelLimit = "channel_limit"
    case channelRefused = "channel_refused"
    case preconditionFailed = "precondition_failed"
    case bodyTooLarge = "body_too_large"
    case unsupportedMediaType = "unsupported_media_type"
    case idempotencyInProgress = "idempotency_in_progress"
    case idempotencyKeyReused = "idempotency_key_reused"
    case rateLimited = "rate_limited"
    case concurrencyLimited = "concurrency_limited"
    case tooManyChanges = "too_many_changes"
    case headersTooLarge = "headers_too_large"
    case internalError = "internal_error"
    case backlogFull = "backlog_full"
    case databaseUnavailable = "database_unavailable"
    case brokerUnavailable = "broker_unavailable"
    case overloaded
    case shuttingDown = "shutting_down"

    /// Every route behind ``AdmissionMiddleware`` can answer these.
    package static let admission: [ProblemCode] = [
        .httpError, .unauthenticated, .forbidden, .rateLimited, .concurrencyLimited, .headersTooLarge, .internalError, .databaseUnavailable,
        .overloaded, .shuttingDown, .unknownParameter, .repeatedParameter, .invalidEncoding,
    ]
    /// The problems with a list's limit and cursor.
    package static let cursor: [ProblemCode] = [.outOfRange, .invalidCursor, .cursorOfAnotherList]
    package static let page: [ProblemCode] = cursor + [.unsupportedValue]
}

/// One row of the table of problems.
package struct ProblemKind: Sendable {
    package let status: HTTPResponse.Status
    /// The kind of the fault, in words for people.
    package let title: String
    /// When it is answered, for people.
    package let when: String
    /// Whether the very same request may succeed later.
    package let isRetryable: Bool
    /// What `Retry-After` says, unless the one who refuses knows better; nil where there is no such field.
    package let retryAfterSeconds: Int?

    fileprivate init(
        _ status: HTTPResponse.Status, _ title: String, _ when: String, isRetryable: Bool = false, retryAfterSeconds: Int? = nil
    ) {
        self.status = status
        self.title = title
        self.when = when
        self.isRetryable = isRetryable || retryAfterSeconds != nil
        self.retryAfterSeconds = retryAfterSeconds
    }
}

extension ProblemCode {
    package var kind: ProblemKind {
        switch self {
        case .malformedJSON:
            ProblemKind(
                .badRequest, "The body is not JSON",
                "The body is empty, no JSON, deeper than 32 levels, has far more values than are taken, or names a field twice.")
        case .invalidRequest: .invalid("The body is JSON but something in it is missing, wrong or unknown; `errors` points to each fault.")
        case .invalidID: .invalid("An id in the path or the query is not a UUID.")
        case .invalidPath: .invalid("A part of the path is empty, too long, not UTF-8 or holds a control character.")
        case .outOfRange: .invalid("A parameter of the query is outside its range.")
        case .invalidCursor: .invalid("The cursor is not a `next_cursor` of this list.")
        case .cursorOfAnotherList: .invalid("The cursor was given by another list, or by this one with other filters.")
        case .unknownParameter: .invalid("The query has a parameter that this operation does not know.")
        case .repeatedParameter: .invalid("The query gives a parameter twice.")
        case .unsupportedValue: .invalid("A parameter of the query is none of the words that it may be.")
        case .invalidTime: .invalid("A parameter of the query is no RFC 3339 date and time.")
        case .invalidEncoding: .invalid("A parameter of the query is not percent-encoded UTF-8, or holds a control character.")
        case .invalidEntityTag: .invalid("`If-Match` is neither `*` nor entity tags in quotes.")
        case .invalidIdempotencyKey:
            .invalid("The `Idempotency-Key` is empty, too long, not printable ASCII, or in the head of a batch: its items have their own.")
        case .httpError: .invalid("The request is not valid HTTP here: its framing, or its `Host`; the connection is closed.")
        case .unauthenticated:
            ProblemKind(
                .unauthorized, "No valid API key", "There is no key, or it is unknown, expired or revoked; the answer does not say which.")
        case .credentialExpired:
            ProblemKind(
                .unauthorized, "The device credential has expired", "The app fetches a new one through its backend. It may still sign out.")
        case .credentialRevoked:
            ProblemKind(
                .forbidden, "The device credential is over",
                "Another user signed in, or the credential's user was signed out, since it was made; nothing was changed.")
        case .deviceCredentialsOff:
            ProblemKind(.conflict, "Device credentials are off", "The operator has not set `DEVICE_CREDENTIAL_KEYS_FILE`.")
        case .forbidden:
            ProblemKind(.forbidden, "Not allowed with this key", "The key lacks the scope, or is bound to an app where it may not be.")
        case .laneNotAllowed:
            ProblemKind(
                .forbidden, "The lane is not for this key",
                "A faster lane than the target's own needs the scope `admin`; nothing was accepted.")
        case .notFound:
            ProblemKind(.notFound, "Not found", "There is no such thing, or none that this key may see; the answer does not say which.")
        case .methodNotAllowed:
            ProblemKind(.methodNotAllowed, "Method not allowed", "The path takes other methods; `Allow` names them.")
        case .bodyTimeout:
            ProblemKind(
                .requestTimeout, "The body did not arrive", "The client stopped sending in the middle of the body.", isRetryable: true)
        case .environmentInUse:
            ProblemKind(
                .conflict, "The environment is in use",
                "Active tokens or broadcast channels are in an environment that would be taken away; nothing was changed.")
        case .keyNotLive: ProblemKind(.conflict, "The key is over", "An expired or revoked key cannot be rotated; make a new one.")
        case .keyAlreadyRotated:
            ProblemKind(.conflict, "The key was rotated before", "A key that replaces it is live; rotate or revoke that one.")
        case .tooManyHolds:
            ProblemKind(
                .conflict, "Too many holds",
                """
                As many holds are in force as may be, 100 of one app or 1,000 over every app, or ten times as many were set within 73 \
                hours; nothing was set. Lift one first, or set fewer, for longer.
                """
            )
        case .deadLettersBusy:
            ProblemKind(
                .conflict, "The dead letters are being read", "One reader at a time: another call reads them now; nothing was changed.",
                isRetryable: true)
        case .tooManyWebhooks: ProblemKind(.conflict, "The app has as many webhooks as it may", "Delete one first; nothing was made.")
        case .webhookDisabled: ProblemKind(.conflict, "The webhook is disabled", "Enable it first; nothing was sent.")
        case .preconditionFailed:
            ProblemKind(
                .preconditionFailed, "The state is another one",
                "`If-Match` names another state than the present one; nothing was changed. Read it again.")
        case .rateLimited:
            ProblemKind(
                .tooManyRequests, "Too many requests",
                "The key's requests per second are used up; `RateLimit-Reset` and `Retry-After` say when.",
                retryAfterSeconds: 1)
        case .concurrencyLimited:
            ProblemKind(
                .tooManyRequests, "Too many requests at once",
                """
                The key, the device or its app has its share of all that is worked on; others are served. Wait for an answer, then repeat.
                """,
                retryAfterSeconds: 1)
        case .tooManyChanges:
            ProblemKind(
                .tooManyRequests, "The installation changes too often",
                "The installation has made 1,000 lines of history within an hour: new tokens, or other users. Nothing was changed.",
                retryAfterSeconds: 1)
        case .headersTooLarge:
            ProblemKind(
                .requestHeaderFieldsTooLarge, "Header fields too large",
                "The header fields are too many or too long; the connection is closed.")
        case .overloaded: .unavailable("More is being worked on than can be answered soon; refused at once instead of slowly.")
        case .activityExists:
            ProblemKind(
                .conflict, "The Live Activity exists",
                """
                A start names an activity of its user that exists and is not over; nothing was accepted. Update or end it, or start \
                another id.
                """
            )
        case .activityOver:
            ProblemKind(
                .gone, "The Live Activity is over",
                "A report of an activity that is over names the update token of another activity of the installation; nothing was changed.")
        case .activityNotSingle:
            ProblemKind(
                .conflict, "Not one Live Activity",
                "The user has none of this `activity_type`, or several, which the detail names; nothing was accepted.")
        case .appDiffers: ProblemKind(.conflict, "The app exists", "An app of this slug exists with other properties; nothing was changed.")
        case .ownerMismatch:
            ProblemKind(.conflict, "Another user is signed in", "The installation's user is not `expected_user`; nothing was changed.")
        case .channelDiffers:
            ProblemKind(
                .conflict, "The channel exists",
                "A channel of this name exists with another environment, storage or id, or the id has another name; nothing was changed.")
        case .channelInUse:
            ProblemKind(
                .conflict, "The channel is in use",
                "Live Activities follow it, or a broadcast is on its way; nothing was changed. `force=true` deletes it all the same.")
        case .channelDeleting:
            ProblemKind(
                .conflict, "The channel is being deleted", "Apple has not deleted the channel of this name yet; then the name is free.",
                retryAfterSeconds: 1)
        case .channelNotOpen:
            ProblemKind(
                .conflict, "The channel is not open", "Apple has no such channel now; the detail says its state. Nothing was sent.")
        case .channelLost:
            ProblemKind(.conflict, "The channel is lost", "Apple does not have the channel any more. Delete it, then create it again.")
        case .channelLimit:
            ProblemKind(
                .conflict, "Too many channels", "The app has the 10,000 channels in this environment that Apple allows; delete some first.")
        case .channelRefused:
            ProblemKind(.conflict, "Apple refused the channel", "The detail has Apple's reason. The next request asks Apple again.")
        case .bodyTooLarge: ProblemKind(.contentTooLarge, "Body too large", "The body has more bytes than this operation takes.")
        case .unsupportedMediaType:
            ProblemKind(
                .unsupportedMediaType, "Unsupported media type",
                "The `Content-Type` is none that this operation takes, or there is a `Content-Encoding`: nothing is unpacked.")
        case .idempotencyInProgress:
            ProblemKind(
                .conflict, "Idempotency-Key is in use",
                """
                Another request with the key is still being worked on. `Retry-After` says when to repeat this one to learn what became of \
                it.
                """,
                retryAfterSeconds: 1)
        case .idempotencyKeyReused:
            ProblemKind(
                .unprocessableContent, "Idempotency-Key was used before", "The key was used with another body today or yesterday (UTC).")
        case .internalError: ProblemKind(.internalServerError, "Internal error", "Our fault; it was noted.")
        case .shuttingDown: .unavailable("This instance is stopping, and its deadline has passed; another instance answers.")
        case .backlogFull:
            .unavailable(
                """
                Too many of this app's notifications wait in this lane for the message broker, which is away or refuses them. Other lanes \
                are taken.
                """,
                retryAfterSeconds: 5)
        case .brokerUnavailable: .unavailable("The message broker cannot be asked now.", retryAfterSeconds: 5)
        case .databaseUnavailable:
            .unavailable(
                """
                The database cannot serve now, or no connection to it became free within two seconds. What a lost answer had done stays \
                done: repeat.
                """
            )
        }
    }
}

extension ProblemKind {
    fileprivate static func invalid(_ when: String) -> ProblemKind { ProblemKind(.badRequest, "The request is not valid", when) }
    fileprivate static func unavailable(_ when: String, retryAfterSeconds: Int = 1) -> ProblemKind {
        ProblemKind(.serviceUnavailable, "Temporarily unavailable", when, retryAfterSeconds: retryAfterSeconds)
    }
}
