import PushModel
package import StrictJSON

/// What a request would do, without doing it.
package struct NotificationValidation: Equatable, Sendable {
    package let request: NotificationRequest
    package let bundleID: String
    package let audience: AudienceEstimate

    package init(request: NotificationRequest, bundleID: String, audience: AudienceEstimate) {
        self.request = request
        self.bundleID = bundleID
        self.audience = audience
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("push_type", request.pushType.rawValue)
            object.field("topic", request.pushType.purpose.topic(bundleID: bundleID))
            object.field("bundle_id", bundleID)
            object.field("priority", request.priority)
            object.field("lane", request.lane.rawValue)
            object.field("collapse_id", request.collapseID)
            object.field("apns_expiration", request.apnsExpiration)
            object.field("on_unknown", request.onUnknown.rawValue)
            writeTiming(to: &object)
            object.field("supersede_key", request.supersedeKey)
            if case .tags(let expression) = request.target { object.field("tags", expression.description) }
            object.array("payloads") { array in
                writePayload(request.content.payload, locale: nil, to: &array)
                for variant in request.content.variants { writePayload(variant.payload, locale: variant.locale, to: &array) }
            }
            object.array("warnings") { array in
                for warning in request.warnings { warning.write(to: &array) }
            }
            object.name("audience")
            audience.write(to: &object)
        }
    }

    private func writeTiming(to object: inout JSONWriter) {
        object.time("not_before", request.timing.notBefore)
        object.field("local_time", request.timing.localTime?.description)
        object.time("expires_at", request.expiresAt)
        object.field("lifetime_seconds", request.timing.lifetime.map { $0 / 1000 })
    }

    private func writePayload(_ payload: [UInt8], locale: String?, to array: inout JSONWriter) {
        array.object { object in
            if let locale { object.field("locale", locale) } else { object.null("locale") }
            object.field("bytes", payload.count)
            object.field("maximum_bytes", request.pushType.maximumPayloadBytes)
            object.field("payload", raw: payload)
        }
    }
}
