import PushModel
package import StrictJSON
package import TokenServiceKit

/// What a device reports of one delivery.
package struct DeviceReceipt: Equatable, Sendable {
    package enum Event: String, CaseIterable, Sendable {
        case shown, opened, dismissed
    }

    /// The most receipts in one request.
    static let maximumListed = 100
    /// Days after the publication of its job in which a receipt counts. APNs keeps a notification for 30 days at most.
    package static let patienceDays = 30

    /// The job that the payload named, and the event.
    package var job: JobID
    package var event: Event
    /// UNIX milliseconds, by the device's clock.
    package var at: Int64

    package init(job: JobID, event: Event, at: Int64) {
        self.job = job
        self.event = event
        self.at = at
    }

    /// The result of one receipt.
    package enum Result: Equatable, Sendable {
        case counted
        /// The same receipt was counted before.
        case repeated
        case refused(Refusal)

        package static let words = ["counted", "repeated", "refused"]

        package var word: String {
            switch self {
            case .counted: Self.words[0]
            case .repeated: Self.words[1]
            case .refused: Self.words[2]
            }
        }
    }

    package enum Refusal: String, CaseIterable, Sendable {
        /// The app has no such notification with device receipts, its job was not sent, or it has no delivery for the installation.
        case unknownDelivery = "unknown_delivery"
        /// The job was published more than ``DeviceReceipt/patienceDays`` ago.
        case tooLate = "too_late"

        fileprivate var detail: String {
            switch self {
            case .unknownDelivery: "no delivery of this job went to this installation, or it asks for no receipts"
            case .tooLate: "it was sent more than \(DeviceReceipt.patienceDays) days ago"
            }
        }
    }
}

extension DeviceReceipt {
    /// - Returns: nil if a field is missing or wrong; the problems say which.
    package static func list(_ body: inout JSONObjectReader) -> [DeviceReceipt]? {
        let receipts = (body.objects("receipts", maximumCount: maximumListed) ?? []).compactMap { element in
            var element = element
            return DeviceReceipt(&element)
        }
        body.finish()
        return body.problems.isEmpty ? receipts : nil
    }

    private init?(_ object: inout JSONObjectReader) {
        let text = object.string("notification", maximumBytes: 36)
        let notification = text.flatMap { PushID($0) }
        if text != nil, notification == nil { object.problem("notification", "invalid_id", "a UUID") }
        let number = object.integer("job", in: 0...Int64(Int32.max))
        let event = object.choice("event", of: Event.self)
        let at = object.string("at", maximumBytes: 64).flatMap { text in
            let at = RFC3339.milliseconds(text)
            if at == nil { object.problem("at", "invalid_time", "an RFC 3339 date and time") }
            return at
        }
        object.finish()
        guard let notification, let number, let event, let at else { return nil }
        self.init(job: JobID(notification: notification, number: Int(number)), event: event, at: at)
    }

    package static let request = JSONSchema.request(
        "DeviceReceipts",
        [
            .required(
                "receipts",
                .array(
                    .request(
                        "DeviceReceipt",
                        [
                            .required("notification", .uuid, "As the payload's `push-receipt` names it."),
                            .required(
                                "job", .integer(0...Int64(Int32.max)).example(.integer(0)), "As the payload's `push-receipt` names it."),
                            .required("event", .words(Event.self)),
                            .required("at", .time, "By the device's clock. The service moves it between the sending and the report."),
                        ]), maximum: maximumListed))
        ])

    package static let response = ResponseSchema<[Result]>.object(
        "DeviceReceiptsResult",
        [
            .required("counted", .count, "Receipts that are new.") { $0.count { $0 == .counted } },
            .required("repeated", .count, "Receipts that had been counted before.") { $0.count { $0 == .repeated } },
            .required("refused", .array(refused), "The others. Reporting them again changes nothing.") { results in
                results.enumerated().compactMap { index, result in
                    if case .refused(let refusal) = result { (index: index, refusal: refusal) } else { nil }
                }
            },
        ])

    private static let refused = ResponseSchema<(index: Int, refusal: Refusal)>.object(
        nil,
        [
            .required("index", .count, "Its place in the request, from 0.") { $0.index },
            .required("code", .word) { $0.refusal },
            .required("detail", .text(), "For people.") { $0.refusal.detail },
        ])
}
