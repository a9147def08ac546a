extension TagExpression { var description: String { "" } }
extension LocalTime { var description: String { "" } }
extension NotificationContent { func variantLocale(for locale: String?) -> String? { nil } }
