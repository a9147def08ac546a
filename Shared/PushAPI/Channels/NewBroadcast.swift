public import Foundation
import StrictJSON

extension PushAPI {
    /// An update or an end of the Live Activities that follow a channel. What is nil the service decides.
    public struct NewBroadcast: Sendable, Hashable {
        public var content: Content
        /// Also update the channel's activities that have update tokens, one by one: for devices below iOS 18.
        public var includesActivities = false
        /// 5 or 10.
        public var priority: Int?
        /// From then on nothing is sent.
        public var expiresAt: Date?
        /// How long APNs may keep it. UNIX seconds, 0: not at all.
        public var apnsExpiration: Int?

        /// - Parameter content: With event `update` or `end`.
        public init(_ content: Content) { self.content = content }

        var json: [UInt8] {
            JSONWriter.object { body in
                content.write(&body)
                if includesActivities { body.field("fallback", "activities") }
                body.field("priority", priority)
                body.field("expires_at", expiresAt?.rfc3339)
                body.field("apns_expiration", apnsExpiration)
            }
        }
    }
}
