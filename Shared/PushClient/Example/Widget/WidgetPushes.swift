import WidgetKit

#if compiler(>=6.2)
    /// Widget pushes arrive here, in the widget extension: `.pushHandler(WidgetPushes.self)` of each widget names it.
    @available(iOS 26.0, *)
    struct WidgetPushes: WidgetPushHandler {
        func pushTokenDidChange(_ pushInfo: WidgetPushInfo, widgets: [WidgetInfo]) {}  // the app reads the token
    }
#endif
