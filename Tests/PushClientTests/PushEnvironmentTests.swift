import Foundation
import Testing

@testable import PushClient

@Suite struct PushEnvironmentTests {
    private func profile(_ key: String, _ value: String) -> Data {
        let list = """
            <?xml version="1.0" encoding="UTF-8"?><plist version="1.0"><dict><key>Name</key><string>x</string>\
            <key>Entitlements</key><dict><key>\(key)</key><string>\(value)</string><key>get-task-allow</key><true/></dict></dict></plist>
            """
        // Around the list is a signed message in binary.
        return Data([0x30, 0x82, 0xff, 0x00]) + Data(list.utf8) + Data([0x00, 0xa0, 0xff])
    }

    @Test func theBuildDecides() throws {
        #expect(try PushEnvironment(provisioningProfile: profile("aps-environment", "development")) == .sandbox)
        #expect(try PushEnvironment(provisioningProfile: profile("aps-environment", "production")) == .production)
        #expect(try PushEnvironment(provisioningProfile: profile("com.apple.developer.aps-environment", "development")) == .sandbox)
        #expect(try PushEnvironment(provisioningProfile: nil) == .production)
    }

    @Test func aProfileWithoutTheEntitlementIsAFault() {
        #expect(throws: PushEnvironment.NoEntitlement.self) { try PushEnvironment(provisioningProfile: profile("other", "production")) }
        #expect(throws: PushEnvironment.NoEntitlement.self) { try PushEnvironment(provisioningProfile: Data([1, 2, 3])) }
    }
}
