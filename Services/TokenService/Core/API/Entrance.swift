import Hummingbird

/// What every request of the API's routes passes, the cheapest check first: is there room, who is it, is it too often, may it.
struct Entrance: Sendable {
    let gate: Gate
    let shedding: LoadShedding
    let metrics: TokenServiceMetrics
    let observation: RequestObservation

    func answer(
        _ request: Request, _ context: APIRequestContext, _ route: APIRoute, _ handler: APIRouter.Handler
    ) async throws -> Response {
        if let reason = shedding.begin() {
            metrics.shed(reason)
            throw APIError.overloaded
        }
        defer { shedding.end() }
        let caller = try await gate.caller(of: request)
        guard let standing = gate.rates.take(caller) else {
            return try await handler(gate.admit(caller, with: request, parameters: context.parameters, to: route))
        }
        var response: Response
        do {
            guard standing.isWithin else {
                metrics.rateLimited()
                throw APIError.rateLimited(standing)
            }
            response = try await handler(gate.admit(caller, with: request, parameters: context.parameters, to: route))
        } catch {
            // Made here, so that a refusal says as well how often the key may still call.
            response = observation.refusal(error, context)
        }
        standing.write(to: &response.headers)
        return response
    }
}
