import ActivityKit

/// The Live Activity of a ride. App and widget extension compile the same file: a start names the type, `Ride`.
@available(iOS 16.1, *)
struct Ride: ActivityAttributes {
    struct ContentState: Codable, Hashable {
        /// In minutes.
        var eta: Int
    }

    /// The backend's id of the ride, by which it updates the activity.
    var ride: String
}
