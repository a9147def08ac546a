package import Hummingbird

/// The context that Hummingbird passes along with a request; it holds nothing of ours.
package struct APIRequestContext: RequestContext {
    package var coreContext: CoreRequestContextStorage

    package init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
    }
}
