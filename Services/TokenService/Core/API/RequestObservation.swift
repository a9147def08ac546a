import Hummingbird
import Logging
import Observability

/// Outermost around every request: counts and times it, and turns whatever was thrown into a problem document.
struct RequestObservation: MiddlewareProtocol {
    typealias Input = Request
    typealias Output = Response
    typealias Context = APIRequestContext

    let metrics: TokenServiceMetrics
    let logger: Logger

    @concurrent func handle(
        _ request: Request, context: APIRequestContext, next: @concurrent (Request, APIRequestContext) async throws -> Response
    ) async throws -> Response {
        let start = ContinuousClock.now
        var response: Response
        do {
            guard request.hasPlainPath else { throw APIError.notFound }
            response = try await next(request, context)
        } catch {
            response = refusal(error, context)
        }
        // A body there would be read as the beginning of the next answer.
        if request.method == .head { response = response.createHeadResponse() }
        metrics.answered(route: context.endpointPath ?? "none", status: response.status.code, took: start.duration(to: .now))
        return response
    }

    /// What is answered for an error; our own faults are logged.
    func refusal(_ error: any Error, _ context: APIRequestContext) -> Response {
        let problem = APIError(cause: error)
        if problem.isOurFault {
            logger.error(
                "A request failed",
                metadata: [LogKey.route: "\(context.endpointPath ?? "none")", LogKey.error: "\(String(describing: error))"])
        }
        return problem.response()
    }
}
