package import HTTPTypes
package import Hummingbird
import StrictJSON

package enum JSONAnswer {
    private static let contentType = HTTPField(name: .contentType, value: "application/json")
    private static let cacheControl = HTTPField(name: .cacheControl, value: "no-store")

    /// - Parameter headers: Further headers, beside the content's type and `no-store`.
    package static func response<Value>(
        _ status: HTTPResponse.Status, _ schema: ResponseSchema<Value>, _ value: Value, headers: HTTPFields = [:]
    ) -> Response {
        var writer = JSONWriter()
        schema.write(value, &writer)
        var headers = headers
        headers.append(contentType)
        headers.append(cacheControl)
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: writer.bytes)))
    }

    package static let noContent = Response(status: .noContent)
}
