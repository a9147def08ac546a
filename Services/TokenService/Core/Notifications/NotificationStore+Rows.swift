import Postgres
import PushModel

/// Notifications as parameters of ``NotificationStore``'s statements.
extension NotificationStore {
    static func resolvedRows(_ items: [Item]) -> [PostgresValue] {
        let notifications = items.map(\.notification)
        let requests = notifications.map(\.request)
        return [
            .ids(notifications.map(\.id)), .int64Array(items.map(\.app.id)), .optionalTextArray(requests.map(\.target.user)),
            .optionalUUIDArray(requests.map(\.target.installation?.uuid)), .textArray(requests.map(\.lane.rawValue)),
            .textArray(requests.map(\.pushType.rawValue)), .textArray(notifications.map(\.topic)),
            .int32Array(requests.map { Int32(clamping: $0.priority) }), .optionalTextArray(requests.map(\.collapseID)),
            .int64Array(requests.map(\.apnsExpiration)), .textArray(requests.map(\.onUnknown.rawValue)),
            .bytesArray(requests.map(\.content.payload)), .textArray(notifications.map(\.traceparent)),
            .timestampArray(notifications.map(\.acceptedAt)), .timestampArray(requests.map(\.expiresAt)),
            .textArray(requests.map(\.pushType.purpose.rawValue)), .doubleArray(items.map(\.leaseSeconds)),
            .boolArray(items.map { $0.app.environments.count > 1 }), .boolArray(requests.map(\.timing.isUrgent)),
            .int64(Int64(Self.maximumResolved)),
        ]
    }

    /// What it supersedes: older ones in the same app with the same key and target.
    private static func supersession(of item: Item) -> (app: App.ID, key: String, target: String)? {
        let request = item.notification.request
        guard let key = request.supersedeKey, let target = request.target.user ?? request.target.installation?.description else {
            return nil
        }
        return (item.app.id, key, target)
    }

    /// To come before all other rows.
    static func supersessionLocks(_ items: [Item]) -> [(PostgresStatement, [PostgresValue])] {
        let places = items.compactMap(supersession)
        guard !places.isEmpty else { return [] }
        return [
            (lockSupersessions, [.int64Array(places.map(\.app)), .textArray(places.map(\.key)), .textArray(places.map(\.target))])
        ]
    }

    static func walkedRows(_ item: Item) -> [(PostgresStatement, [PostgresValue])] {
        let notification = item.notification
        let request = notification.request
        let expression = request.target.tags
        var rows: [(PostgresStatement, [PostgresValue])] = [
            (
                insertWalked,
                [
                    .id(notification.id), .int64(item.app.id), .text(request.lane.rawValue), .text(request.pushType.rawValue),
                    .text(notification.topic), .int32(Int32(clamping: request.priority)), .optionalText(request.collapseID),
                    .int64(request.apnsExpiration), .text(request.onUnknown.rawValue), .bytes(request.content.payload),
                    .text(notification.traceparent), .timestamp(milliseconds: notification.acceptedAt),
                    .timestamp(milliseconds: request.expiresAt), .optionalText(request.target.user), .textArray(request.target.users),
                    .optionalID(request.target.installation), .ids(request.target.installations),
                    .bytesArray(request.target.tokens.map(\.bytes)), .optionalText(expression?.description),
                    .optionalText(expression?.searchText), .optionalBool(request.target == .all ? true : nil),
                    .optionalTimestamp(milliseconds: request.timing.notBefore), .optionalText(request.timing.localTime?.description),
                    .optionalInt64(request.timing.lifetime), .bool(request.timing.isUrgent), .optionalText(request.supersedeKey),
                    .text(request.keptReceipts.rawValue),
                    .text(request.pushType.purpose.rawValue),
                ]
            )
        ]
        if let supersession = supersession(of: item) {
            let place: [PostgresValue] = [.int64(supersession.app), .text(supersession.key), .text(supersession.target)]
            rows.append((CancellationStore.supersede, place + [.id(notification.id)]))
            rows.append((CancellationStore.hastenSuperseded, place))
        }
        let variants = request.content.variants
        if !variants.isEmpty {
            rows.append(
                (insertVariants, [.id(notification.id), .textArray(variants.map(\.locale)), .bytesArray(variants.map(\.payload))]))
        }
        return rows
    }
}

extension NotificationRequest {
    /// One user's or installation's tokens, one payload, now: the acceptance itself finds them. Anything else is walked.
    var isResolvedAtOnce: Bool {
        guard target.user != nil || target.installation != nil else { return false }
        return timing.notBefore == nil && timing.localTime == nil && content.variants.isEmpty && supersedeKey == nil
            && receipts != .failures
    }

    /// A receipt for every delivery where the sender named whom, counters where nobody knows how many it will be.
    var keptReceipts: Receipts {
        if let receipts { return receipts }
        switch target {
        case .tags, .all: return .failures
        case .user, .users, .installation, .installations, .tokens: return .all
        }
    }
}

extension NotificationRequest.Target {
    fileprivate var user: String? { if case .user(let name) = self { name } else { nil } }
    fileprivate var users: [String] { if case .users(let names) = self { names } else { [] } }
    fileprivate var installation: PushID? { if case .installation(let id) = self { id } else { nil } }
    fileprivate var installations: [PushID] { if case .installations(let ids) = self { ids } else { [] } }
    fileprivate var tokens: [DeviceToken] { if case .tokens(let tokens) = self { tokens } else { [] } }
    fileprivate var tags: TagExpression? { if case .tags(let expression) = self { expression } else { nil } }
}
