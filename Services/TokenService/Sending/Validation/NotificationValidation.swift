import PushModel
import TokenServiceKit

/// The effect of a request, without sending it.
package struct NotificationValidation: Equatable, Sendable {
    package let request: NotificationRequest
    package let bundleID: String
    package let audience: AudienceEstimate

    package init(request: NotificationRequest, bundleID: String, audience: AudienceEstimate) {
        self.request = request
        self.bundleID = bundleID
        self.audience = audience
    }

    static let response = ResponseSchema<NotificationValidation>.object(
        "Validation",
        [
            .required("push_type", .word) { $0.request.pushType },
            .required("topic", .text(.string().example("com.example.shop"))) {
                $0.request.pushType.topic(bundleID: $0.bundleID)
            },
            .required("bundle_id", .text(.string().example("com.example.shop"))) { $0.bundleID },
            .required("priority", .integer(.numbers([10, 5, 1]))) { $0.request.priority },
            .required("lane", .word) { $0.request.lane },
            .optional("collapse_id", .text()) { $0.request.collapseID },
            .required("apns_expiration", .count, "UNIX seconds; 0 for one try.") { $0.request.apnsExpiration },
            .required("on_unknown", .word, "As stated, or as the push type has it.") { $0.request.onUnknown },
            .optional("not_before", .time) { $0.request.timing.notBefore },
            .optional("local_time", .text(.localTime)) { $0.request.timing.localTime?.description },
            .required("expires_at", .time) { $0.request.expiresAt },
            .optional("lifetime_seconds", .count, "With a local time: how long after it is due in its time zone.") {
                $0.request.timing.lifetime.map { $0 / 1000 }
            },
            .optional("supersede_key", .text()) { $0.request.supersedeKey },
            .optional("tags", .text(.string().example("beta AND NOT muted")), "The expression as it was understood.") {
                if case .tags(let expression) = $0.request.target { expression.description } else { nil }
            },
            .required("payloads", .array(Payload.response), "The default first, then the locales.") { $0.payloads },
            .required("warnings", .array(NotificationWarning.response), "Legal but doubtful.") { $0.request.warnings },
            .required("audience", AudienceEstimate.response) { $0.audience },
        ])

    private struct Payload {
        let locale: String?
        let bytes: [UInt8]
        let pushType: PushType

        static let response = ResponseSchema<Payload>.object(
            "RenderedPayload",
            [
                .nullable("locale", .text(.string().example("de")), "Null for the default.") { $0.locale },
                .required("bytes", .count) { $0.bytes.count },
                .required("maximum_bytes", .integer(.count.example(4096))) { $0.pushType.maximumPayloadBytes },
                .required("payload", .raw(.dictionary(.anything)), "As APNs would get it.") { $0.bytes },
            ])
    }

    private var payloads: [Payload] {
        [Payload(locale: nil, bytes: request.content.payload, pushType: request.pushType)]
            + request.content.variants.map { Payload(locale: $0.locale, bytes: $0.payload, pushType: request.pushType) }
    }
}
