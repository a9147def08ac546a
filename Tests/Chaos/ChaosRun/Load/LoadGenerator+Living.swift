import ChaosLedger
import PushAPI
import PushModel
import StrictJSON
import TestSupport

/// The actions of devices and their owners. A device sends one request at a time.
extension LoadGenerator {
    func live(_ random: inout SeededGenerator) async {
        switch Double.random(in: 0..<1, using: &random) {
        case ..<0.25: await with(&random) { await refresh(&$0, &$1) }
        case ..<0.45: await with(&random) { await signInSomebodyElse(&$0, &$1) }
        case ..<0.58: await with(&random) { await leaveWhileSomethingWaits(&$0, &$1) }
        case ..<0.68: await with(&random) { await logOut(&$0, &$1) }
        case ..<0.70: await logOutEverywhere(&random)
        case ..<0.76: await with(&random) { await deregister(&$0, &$1) }
        case ..<0.82: await with(&random) { await changeToken(&$0, &$1) }
        case ..<0.88: await with(&random) { await loseInstallation(&$0, &$1) }
        case ..<0.94: await with(&random) { await uninstall(&$0, &$1) }
        default: await with(&random) { await hearLate(&$0, &$1) }
        }
    }

    /// Lends a device, and takes it back as it is then.
    private func with(_ random: inout SeededGenerator, _ body: (inout Device, inout SeededGenerator) async -> Void) async {
        guard case (let index, var device)? = fleet.borrow(&random, where: \.isRegistered) else { return }
        await body(&device, &random)
        fleet.giveBack(index, device)
    }

    /// An app's every start.
    private func refresh(_ device: inout Device, _ random: inout SeededGenerator) async {
        await client.ask(client.registration(device), &random)
    }

    private func signInSomebodyElse(_ device: inout Device, _ random: inout SeededGenerator) async {
        device.user = Self.drawUser(settings, &random)
        await client.ask(client.registration(device), &random)
    }

    /// APNs throttles this device, so a push to its user waits. Meanwhile another user takes the device.
    private func leaveWhileSomethingWaits(_ device: inout Device, _ random: inout SeededGenerator) async {
        guard let user = device.user, !device.wasThrottled,
            await script(device, #"{"answers":[{"status":429,"reason":"TooManyRequests"}]}"#)
        else { return }
        device.wasThrottled = true
        let timing = random.chance(0.25) ? Client.Timing(expiresAt: moment(after: 3)) : Client.Timing()
        let notification = await post(device.app, .user(user), timing, isCareful: true, &random)
        await pause(0.4)
        switch Double.random(in: 0..<1, using: &random) {
        case ..<0.4: await signInSomebodyElse(&device, &random)
        case ..<0.75: await logOut(&device, &random)
        default: if let notification { await client.ask(client.cancellation(notification, app: device.app), &random) }
        }
    }

    private func logOut(_ device: inout Device, _ random: inout SeededGenerator) async {
        let question = random.chance(0.7) ? client.logout(device) : client.logoutByToken(device)
        await client.ask(question, &random)
        device.user = nil
        await pause(Double.random(in: 0...2, using: &random))
        if random.chance(0.8) { await signInSomebodyElse(&device, &random) }
    }

    private func logOutEverywhere(_ random: inout SeededGenerator) async {
        let app = Int.random(in: client.apps.indices, using: &random)
        await client.ask(client.logoutEverywhere(Self.drawUser(settings, &random), app: app), &random)
    }

    private func deregister(_ device: inout Device, _ random: inout SeededGenerator) async {
        await client.ask(client.deregistration(device, byToken: random.chance(0.3)), &random)
        await pause(Double.random(in: 0...1, using: &random))
        await signInSomebodyElse(&device, &random)
    }

    /// A restore from a backup: the same installation, another token.
    private func changeToken(_ device: inout Device, _ random: inout SeededGenerator) async {
        device.token = client.apps[device.app].drawToken(&random)
        await client.ask(client.registration(device), &random)
    }

    /// A reinstall that lost its keychain: another installation, the same token, often another user.
    private func loseInstallation(_ device: inout Device, _ random: inout SeededGenerator) async {
        device.installation = Self.drawID(&random)
        if random.chance(0.6) { device.user = Self.drawUser(settings, &random) }
        await client.ask(client.registration(device), &random)
    }

    /// The app is deleted, APNs reports it, and later the app is installed again with another token.
    private func uninstall(_ device: inout Device, _ random: inout SeededGenerator) async {
        guard let user = device.user else { return }
        let moment = now() / 1000 + 2
        await pause(0.005)
        client.ledgers.note(DeviceRecord(token: device.token, event: .uninstall, at: moment * 1000))
        let body = #"{"environment":"\#(client.apps[device.app].environment)","state":"uninstalled","uninstalled_at_ms":\#(moment)}"#
        let call = PushAPI.Call(.put, "/v1/devices/\(device.token.hex)", json: Array(body.utf8))
        guard await client.caller.ask(call, at: client.simulatorURL) != nil else { return }
        _ = await post(device.app, .user(user), Client.Timing(), isCareful: true, &random)
        await pause(Double.random(in: 0.5...4, using: &random))
        if random.chance(0.5) { device.installation = Self.drawID(&random) }
        await changeToken(&device, &random)
    }

    /// APNs reports an old uninstallation late: since then the app was installed and registered again. The token must live.
    private func hearLate(_ device: inout Device, _ random: inout SeededGenerator) async {
        guard let user = device.user else { return }
        let moment = now() / 1000
        client.ledgers.note(DeviceRecord(token: device.token, event: .uninstall, at: moment * 1000))
        await pause(0.02)
        client.ledgers.note(DeviceRecord(token: device.token, event: .reinstall, at: now() / 1000 * 1000))
        await pause(0.01)
        let record = await client.ask(client.registration(device), &random).record
        guard record.status == 200 || record.status == 201 else { return }
        let answer = #"{"answers":[{"status":410,"reason":"Unregistered","timestamp_ms":\#(moment)}]}"#
        guard await script(device, answer) else { return }
        _ = await post(device.app, .user(user), Client.Timing(), isCareful: true, &random)
    }

    /// - Returns: whether the simulated APNs took it.
    private func script(_ device: Device, _ text: String) async -> Bool {
        let call = PushAPI.Call(.put, "/v1/devices/\(device.token.hex)/script", json: Array(text.utf8))
        let answer = await client.caller.ask(call, at: client.simulatorURL)
        return answer?.status == 200 || answer?.status == 201 || answer?.status == 204
    }
}
