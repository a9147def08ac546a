import StrictJSON
import Testing
import TokenService

/// The check that every test's answers pass through must be able to fail.
@Suite("An exchange that is not described is noticed")
struct ContractTests {
    private static func contract(
        _ method: String, _ path: String, _ status: Int, _ body: String = "", type: String = "application/json",
        headers: [(String, String)] = [], request: String? = nil
    ) throws -> [String] {
        let bytes = Array(body.utf8)
        let answer = APITestClient.Answer(
            status: status, headers: headers + (body.isEmpty ? [] : [("Content-Type", type)]), bytes: bytes,
            json: try JSONValue.parse(bytes.isEmpty ? Array("null".utf8) : bytes))
        return Contract(method: method, path: path, requestType: nil, requestBody: request.map { Array($0.utf8) }, answer: answer).faults()
    }

    private static func problem(_ code: String, _ status: Int, title: String, more: String = "") -> String {
        #"""
        {"type":"urn:push:problem:\#(code)","title":"\#(title)","status":\#(status),"code":"\#(code)","detail":"d",\#
        "retryable":false\#(more)}
        """#
    }

    @Test("The check finds no fault with a described answer") func goodAnswer() throws {
        #expect(try Self.contract("GET", "/v1/admin/apps", 200, #"{"apps":[]}"#) == [])
        #expect(try Self.contract("GET", "/no/such/route", 404, Self.problem("not_found", 404, title: "Not found")) == [])
    }

    @Test("A status, field or media type that is not described is a fault") func undescribed() throws {
        #expect(try Self.contract("GET", "/v1/admin/apps", 203, #"{"apps":[]}"#) == ["listApps: 203 is no answer of it"])
        #expect(try Self.contract("GET", "/v1/admin/apps", 200, #"{"apps":[],"more":1}"#) == ["listApps: /more: not described"])
        #expect(try Self.contract("GET", "/v1/admin/apps", 200, "{}") == ["listApps: /apps: missing"])
        #expect(
            try Self.contract("GET", "/v1/admin/apps", 200, #"{"apps":7}"#) == ["listApps: /apps: expected an array, found a whole number"])
        #expect(
            try Self.contract("GET", "/v1/admin/apps", 200, #"{"apps":[]}"#, type: "text/json")
                == [#"listApps: the answer is text/json, not ["application/json"]"#])
        #expect(try Self.contract("PUT", "/v1/admin/apps", 404) == ["PUT /v1/admin/apps is not described, but answers 404"])
        #expect(try Self.contract("GET", "/no/such/route", 200) == ["GET /no/such/route is not described, but answers 200"])
    }

    @Test("A problem that the operation does not list is a fault") func foreignProblem() throws {
        let type = "application/problem+json"
        let mismatch = Self.problem("owner_mismatch", 409, title: "Another user is signed in")
        #expect(
            try Self.contract("GET", "/v1/admin/apps", 409, mismatch, type: type) == ["listApps: the problem owner_mismatch is none of its"]
        )
        #expect(
            try Self.contract("GET", "/v1/admin/apps", 418, Self.problem("teapot", 418, title: "Tea"), type: type)
                == ["listApps: the problem teapot is not in the table"])
        #expect(
            try Self.contract("GET", "/v1/admin/apps", 403, Self.problem("unauthenticated", 403, title: "No"), type: type)
                == ["listApps: unauthenticated is 401, but it answered 403", "listApps: the title of unauthenticated is another one"])
    }

    @Test("A request that the service took against the description is a fault") func acceptedRequest() throws {
        let faults = try Self.contract(
            "POST", "/v1/apps/shop/users/ada/logout", 200, #"{"signed_out":0,"fence":"none"}"#, request: #"{"except":"x","also":1}"#)
        #expect(faults == ["logOutUser: request /except: no UUID", "logOutUser: request /also: not described"])
        #expect(
            try Self.contract("GET", "/v1/admin/apps?colour=red", 200, #"{"apps":[]}"#)
                == ["listApps: the parameter colour is not described"])
    }

    @Test("An answer must have a header that the description promises") func promisedHeader() throws {
        #expect(try Self.contract("HEAD", "/openapi.json", 200) == ["description: no header ETag"])
        #expect(try Self.contract("HEAD", "/openapi.json", 200, headers: [("etag", "\"1\"")]) == [])
    }
}
