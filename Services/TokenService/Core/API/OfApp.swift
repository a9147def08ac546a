import PushModel

/// A value that an answer shows with its app.
struct OfApp<Value: Sendable>: Sendable {
    let app: AppSlug
    let value: Value
}
