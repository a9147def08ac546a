package import Hummingbird

/// The context that Hummingbird passes along with a request.
package struct APIRequestContext: RequestContext {
    package var coreContext: CoreRequestContextStorage
    /// Nil if the connection did not decide on the request by its head.
    let decision: AdmissionDecision?

    package init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        decision = ConnectionHandler.takeDecision(on: source.channel)
    }
}
