import PushModel

extension PushJob.OnUnknown {
    /// Where the sender does not say: what a second copy would do on the device decides. This is the only place that does.
    ///
    /// * A Live Activity's `start` twice shows two activities.
    /// * A call may ring twice, but only at once: a late ring is worse than none.
    /// * A second alert replaces the first (`apns-collapse-id`), and every other push only carries the newest state.
    static func standard(for type: PushType, startsActivity: Bool) -> Self {
        switch type {
        case .liveactivity: startsActivity ? .drop : .resend
        case .voip, .pushtotalk: .resendOnce
        case .alert, .background, .location, .complication, .fileprovider, .controls, .widgets, .mdm: .resend
        }
    }
}
