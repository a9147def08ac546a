import PushModel

/// Something that an answer shows with the app that it belongs to.
struct OfApp<Value: Sendable>: Sendable {
    let app: AppSlug
    let value: Value
}
