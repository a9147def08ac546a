/// One entry of the `push.control` stream, which every dispatcher reads from its beginning before it takes a job.
package enum ControlMessage: Equatable, Sendable {
    package static let currentVersion = 1

    /// Owner epochs of an installation below `epochsBelow` are over.
    case fence(app: AppSlug, installation: PushID, epochsBelow: Int64, at: Int64)
    /// No more pushes of this notification are sent.
    case cancel(app: AppSlug, notification: PushID, at: Int64)
    /// Deliveries in the scope wait until the hold is lifted or ends. The entry is repeated while it lasts; `at` is the time of this copy.
    case hold(id: PushID, scope: HoldScope, endsAt: Int64?, at: Int64)
    /// The hold is lifted, for good: a later hold has another id.
    case unhold(id: PushID, at: Int64)
    /// A reader's own mark: when it reads it back, it has caught up.
    case marker(id: PushID)
    /// A kind this version does not know. Readers pass over it, so that a newer writer may add kinds.
    case other(kind: String)
}
