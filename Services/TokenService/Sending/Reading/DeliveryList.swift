package import PushModel
package import TokenServiceApps
package import TokenServiceKit

/// The deliveries of one notification, page by page.
package struct DeliveryList: Hashable, Sendable {
    /// The state of a delivery in a list.
    package enum State: Hashable, Sendable {
        case pending
        case ended(OutcomeClass)

        package init?(_ text: String) {
            if text == "pending" {
                self = .pending
            } else if let outcome = OutcomeClass(rawValue: text) {
                self = .ended(outcome)
            } else {
                return nil
            }
        }

        package var text: String {
            switch self {
            case .pending: "pending"
            case .ended(let outcome): outcome.rawValue
            }
        }

        package static let names = ["pending"] + OutcomeClass.allCases.map(\.rawValue)
    }

    package var notification: PushID
    package var state: State?
    /// APNs' reason, or ours.
    package var reason: String?
    package var installation: PushID?

    package init(notification: PushID, state: State? = nil, reason: String? = nil, installation: PushID? = nil) {
        self.notification = notification
        self.state = state
        self.reason = reason
        self.installation = installation
    }

    package struct Page: Sendable {
        package var receipts: NotificationRequest.Receipts
        /// The deliveries in the order of their places. They may be fewer than the limit, even none, while there is a next page.
        package var deliveries: [NotificationStatus.Delivery]
        /// The last place that was read, if more may follow.
        package var next: DeliveryPlace?
    }

    /// - Parameter place: The last one that was read.
    package func cursor(after place: DeliveryPlace, app: App) -> String {
        PageCursor.encode(Int64(place.job) << 16 | Int64(place.position), list: identity(app))
    }

    package func position(_ cursor: String, app: App) throws(PageCursor.Fault) -> DeliveryPlace {
        let place = try PageCursor.decodeNumber(cursor, list: identity(app))
        return DeliveryPlace(job: Int(place >> 16), position: Int(place & 0xffff))
    }

    private func identity(_ app: App) -> [String?] {
        ["deliveries", "\(app.id)", notification.description, state?.text, reason, installation?.description]
    }
}

extension DeliveryList {
    package static let hints = response(NotificationStatus.Delivery.hints)
    package static let full = response(NotificationStatus.Delivery.full)

    private static func response(
        _ delivery: ResponseSchema<NotificationStatus.Delivery>
    ) -> ResponseSchema<(page: Page, nextCursor: String?)> {
        .object(
            "Deliveries",
            [
                .required("receipts", .receipts) { $0.page.receipts },
                .required("deliveries", .array(delivery)) { $0.page.deliveries },
                .nextCursor { $0.nextCursor },
            ])
    }
}
