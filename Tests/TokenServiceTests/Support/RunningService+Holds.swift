import StrictJSON
import Testing

extension RunningService {
    /// Who sends in the app `shop`, and who may set and lift holds there.
    func operate() async throws -> (shop: APITestClient, operator: APITestClient) {
        (try await client.makeApp(), try await client.makeKey(app: "shop", scopes: ["admin"]))
    }
}

extension APITestClient {
    static let holds = "/v1/apps/shop/holds"

    func setHold(_ body: String, at path: String = holds) async throws -> String {
        let answer = try await post(path, body)
        #expect(answer.status == 201, "\(answer.json)")
        #expect(answer.json.text("state") == "live" && answer.json.text("fence") == "effective", "\(answer.json)")
        let id = try #require(answer.json.text("id"))
        #expect(answer.header("location") == "\(path)/\(id)")
        return id
    }

    func liftHold(_ id: String, at path: String = holds) async throws {
        let answer = try await delete("\(path)/\(id)")
        #expect(answer.status == 200 && answer.json.text("state") == "lifted", "\(answer.json)")
        #expect(answer.json.text("fence") == "effective")
    }
}
