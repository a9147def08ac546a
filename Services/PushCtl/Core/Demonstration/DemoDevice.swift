import FoundationEssentials
import PushModel

/// A device of the demonstration. Names for people; ids and tokens are new in every run, so that runs do not meet.
struct DemoDevice {
    let name: String
    let environment: APNsEnvironment
    /// Of an app with PushClient: the client makes it.
    var installation = PushID.random().description
    private(set) var token = DemoDevice.newToken()

    init(_ name: String, _ environment: APNsEnvironment = .production) {
        self.name = name
        self.environment = environment
    }

    /// As after a reinstall: iOS issues a new token; the installation id stays, because it is in the keychain.
    mutating func reinstall() { token = Self.newToken() }

    /// As iOS gives it to the app.
    var tokenBytes: Data { Data(DeviceToken(hex: token)?.bytes ?? []) }

    private static func newToken() -> String {
        hexText((0..<32).map { _ in UInt8.random(in: .min ... .max) })
    }
}
