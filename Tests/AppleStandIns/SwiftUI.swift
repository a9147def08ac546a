public import Foundation
public import UIKit

/// `SwiftUI`: only what the example in PushClient's README calls, with the SDK's signatures.
@MainActor @preconcurrency public protocol View {
    associatedtype Body: View
    @ViewBuilder @MainActor @preconcurrency var body: Body { get }
}

@MainActor @preconcurrency public protocol Scene {
    associatedtype Body: Scene
    @SceneBuilder @MainActor @preconcurrency var body: Body { get }
}

@MainActor @preconcurrency public protocol App {
    associatedtype Body: Scene
    @SceneBuilder @MainActor @preconcurrency var body: Body { get }
    @MainActor @preconcurrency init()
}

extension App {
    @MainActor @preconcurrency public static func main() { fatalError() }
}

extension Never: View, Scene {
    public var body: Never { return fatalError() }
}

@resultBuilder public struct ViewBuilder {
    public static func buildBlock<Content: View>(_ content: Content) -> Content { fatalError() }
}

@resultBuilder public struct SceneBuilder {
    public static func buildBlock<Content: Scene>(_ content: Content) -> Content { fatalError() }
}

nonisolated public struct WindowGroup<Content: View>: Scene {
    nonisolated public init(@ViewBuilder content: @escaping () -> Content) { fatalError() }
    public var body: Never { fatalError() }
}

@MainActor @preconcurrency @propertyWrapper public struct UIApplicationDelegateAdaptor<DelegateType: NSObject & UIApplicationDelegate> {
    @MainActor @preconcurrency public init(_ delegateType: DelegateType.Type = DelegateType.self) { fatalError() }
    @MainActor @preconcurrency public var wrappedValue: DelegateType { fatalError() }
}
