import SwiftUI
import WidgetKit

@main
struct ShopWidgets: WidgetBundle {
    var body: some Widget { RideWidget() }
}

/// How the Live Activity looks. It needs no code for pushes: the app reports the tokens, and the system hands each state on.
struct RideWidget: Widget {
    var body: some WidgetConfiguration {
        ActivityConfiguration(for: Ride.self) { context in
            Text(context.isStale ? "Waiting for news" : "\(context.state.eta) min")
        } dynamicIsland: { context in
            DynamicIsland {
                DynamicIslandExpandedRegion(.bottom) { Text("\(context.state.eta) min") }
            } compactLeading: {
                Text("Ride")
            } compactTrailing: {
                Text("\(context.state.eta)")
            } minimal: {
                Text("\(context.state.eta)")
            }
        }
    }
}
