import PushModel

extension PushJob.OnUnknown {
    /// The default if the sender does not say: the effect of a second copy on the device decides. No other code decides this.
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
