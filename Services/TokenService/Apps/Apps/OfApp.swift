package import PushModel

/// A value that an answer shows with its app.
package struct OfApp<Value: Sendable>: Sendable {
    package let app: AppSlug
    package let value: Value

    package init(app: AppSlug, value: Value) {
        self.app = app
        self.value = value
    }
}
