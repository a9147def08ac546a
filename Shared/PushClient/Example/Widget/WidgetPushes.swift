import WidgetKit

#if compiler(>=6.2)
    /// In the widget extension, named by `.pushHandler(WidgetPushes.self)` of each widget.
    @available(iOS 26.0, *)
    struct WidgetPushes: WidgetPushHandler {
        func pushTokenDidChange(_ pushInfo: WidgetPushInfo, widgets: [WidgetInfo]) {}  // the app reads the token
    }
#endif
