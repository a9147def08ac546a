import Hummingbird
import StrictJSON

/// `GET /v1/devices`: the devices that a request selects, chosen and counted here, so that a page of sixty never loads ten thousand.
struct DeviceList {
    private enum Kind: String, CaseIterable {
        /// A device with something on the lock screen.
        case notified
        case off
        /// Uninstalled, or with a token that expired.
        case gone
    }

    static let parameters = ["search", "only", "limit", "groups"]

    /// Lower case; empty finds every device.
    private let search: String
    private let only: Kind?
    private let limit: Int?
    private let groups: Int?

    init(_ request: ControlRequest) throws {
        search = request.text("search")?.lowercased() ?? ""
        only = try request.choice("only", of: Kind.self)
        limit = try request.number("limit", in: 1...10_000).map { Int($0) }
        groups = try request.number("groups", in: 0...100).map { Int($0) }
    }

    func response(from simulator: APNsSimulator) -> Response {
        let all = simulator.devices()
        let matching = search.isEmpty && only == nil ? all : all.filter(matches)
        let now = simulator.configuration.clock()
        return ControlAnswer.json { writer in
            writer.object { object in
                object.field("total", all.count)
                object.field("matching", matching.count)
                object.array("devices") { array in
                    for device in matching.prefix(limit ?? .max) {
                        let inbox = groups == nil || device.inboxCount == 0 ? [] : simulator.world.inbox(of: device.device.token, now: now)
                        let activities =
                            groups == nil || device.activityCount == 0 ? [] : simulator.world.activities(of: device.device.token, now: now)
                        write(device, inbox, activities, to: &array)
                    }
                }
            }
        }
    }

    private func matches(_ summary: DeviceSummary) -> Bool {
        let isKind =
            switch only {
            case .notified: summary.inboxCount > 0 || summary.activityCount > 0
            case .off: summary.device.state == .installed && !summary.device.isOnline
            case .gone: summary.device.state != .installed
            case nil: true
            }
        guard isKind, !search.isEmpty else { return isKind }
        return summary.device.token.contains(search) || summary.device.name?.lowercased().contains(search) == true
    }

    private func write(
        _ summary: DeviceSummary, _ inbox: [InboxNotification], _ activities: [ActivitySummary], to writer: inout JSONWriter
    ) {
        writer.object { object in
            DevicesControl.writeFields(summary, to: &object)
            guard let groups else { return }
            object.array("activities") { array in
                for activity in activities where activity.state != .dismissed {
                    array.object { ActivitiesControl.writeFields(activity, to: &$0) }
                }
            }
            let found = NotificationGroup.groups(of: inbox)
            object.field("group_count", found.count)
            object.array("groups") { array in
                for group in found.suffix(groups) {
                    array.object { entry in
                        InboxControl.writeFields(group, to: &entry)
                        entry.object("newest") { InboxControl.writeFields(group.newest, to: &$0) }
                    }
                }
            }
        }
    }
}

extension World {
    /// - Parameter token: The token of a summary; the result is empty if the device was removed meanwhile.
    fileprivate func inbox(of token: String, now: Int64) -> [InboxNotification] {
        TokenKey(hex: token).flatMap { inbox(of: $0, now: now) } ?? []
    }

    fileprivate func activities(of token: String, now: Int64) -> [ActivitySummary] {
        TokenKey(hex: token).flatMap { activities(of: $0, now: now)?.activities } ?? []
    }
}
