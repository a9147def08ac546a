package import Hummingbird

/// What Hummingbird carries along with a request; nothing of ours.
package struct APIRequestContext: RequestContext {
    package var coreContext: CoreRequestContextStorage

    package init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
    }
}
