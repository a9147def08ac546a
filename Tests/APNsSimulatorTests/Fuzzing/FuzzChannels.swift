import HTTP2

@testable import APNsSimulator

/// Path, headers and body of a request about channels, for both kinds of port.
enum FuzzChannels {
    static func run(_ bytes: [UInt8]) {
        let (headers, body) = FuzzRequest.read(bytes)
        for isManagement in [true, false] {
            do throws(BroadcastAnswer) {
                _ = try BroadcastRequest.id(headers)
                let request = try BroadcastRequest(headers, isManagement: isManagement)
                precondition(!request.bundleID.isEmpty && request.bundleID.utf8.count <= 255, "a bundle id is bounded")
                _ = try request.channelID()
            } catch {
                precondition(error.status >= 400, "a refusal is none")
            }
        }
        do throws(BroadcastAnswer) { _ = try ChannelBody.isStoring(body) } catch { precondition(error.status >= 400, "a refusal is none") }
        do throws(BroadcastAnswer) { _ = try ChannelBody.content(body) } catch { precondition(error.status >= 400, "a refusal is none") }
    }
}
