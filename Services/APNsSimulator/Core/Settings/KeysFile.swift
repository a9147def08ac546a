import FoundationEssentials
import Logging
import Observability
import OpenSSL
import StrictJSON
import SystemIO

/// The file with the keys whose provider tokens are good.
enum KeysFile {
    static let help = """
        The keys file lists the signing keys whose provider tokens are good:

          {"v":1,"keys":[{"team_id":"TEAM123456","key_id":"KEY1234567",
            "public_key_file":"key.pub","environments":["production","sandbox"],
            "topics":["com.example.shop"]}]}

        Instead of "public_key_file", "key_file" may name the .p8 itself. Paths are
        relative to the keys file. Without "topics" the key is team-scoped: good for
        every topic.
        """

    private static let maximumBytes = 1 << 20

    static func read(_ path: String, logger: Logger) throws(SimulatorError) -> [ProviderKey] {
        let content: [UInt8]
        do throws(WholeFile.Fault) {
            content = try WholeFile(path: path, maximumBytes: maximumBytes).bytes
        } catch {
            throw SimulatorError(.configuration, error.description)
        }
        return try parse(content, folder: URL(filePath: path).deletingLastPathComponent(), logger)
    }

    private static func parse(_ content: [UInt8], folder: URL, _ logger: Logger) throws(SimulatorError) -> [ProviderKey] {
        let root: JSONValue
        do throws(JSONError) {
            root = try JSONValue.parse(content, maximumBytes: maximumBytes)
        } catch {
            throw SimulatorError(.configuration, "not JSON: \(error)")
        }
        var reader = JSONObjectReader(root)
        _ = reader.integer("v", in: 1...1)
        let entries = reader.objects("keys", maximumCount: 1000)?.map { Entry($0) } ?? []
        reader.finish()
        if let problem = reader.problems.list.first {
            throw SimulatorError(.configuration, "\(problem.pointer): \(problem.code), \(problem.detail)")
        }
        var keys: [ProviderKey] = []
        for entry in entries { keys.append(try entry.key(folder: folder, logger)) }
        return keys
    }

    private struct Entry {
        let teamID: String?
        let keyID: String?
        let publicKeyFile: String?
        let privateKeyFile: String?
        let environments: [String]?
        let topics: [String]?
        let isSuspended: Bool

        init(_ reader: JSONObjectReader) {
            var reader = reader
            teamID = reader.string("team_id", maximumBytes: 64)
            keyID = reader.string("key_id", maximumBytes: 64)
            publicKeyFile = reader.optionalString("public_key_file", maximumBytes: 4096)
            privateKeyFile = reader.optionalString("key_file", maximumBytes: 4096)
            environments = reader.strings("environments", maximumCount: 2, maximumBytes: 16)
            topics = reader.optionalStrings("topics", maximumCount: 400, maximumBytes: 255)
            isSuspended = reader.optionalBool("suspended") ?? false
            if (publicKeyFile == nil) == (privateKeyFile == nil) {
                reader.problem("public_key_file", "missing", "either this or key_file")
            }
            if environments?.contains(where: { SimulatorEnvironment(rawValue: $0) == nil }) == true {
                reader.problem("environments", "unsupported_value", "production, sandbox or both")
            }
            reader.finish()
        }

        func key(folder: URL, _ logger: Logger) throws(SimulatorError) -> ProviderKey {
            let publicKey: ES256PublicKey
            do throws(TLSError) {
                if let publicKeyFile {
                    publicKey = try ES256PublicKey(pemFile: path(publicKeyFile, folder))
                } else {
                    let path = path(privateKeyFile ?? "", folder)
                    publicKey = try ES256PrivateKey(pemFile: path).publicKey
                    if let mode = try? WholeFile.check(path) { logger.warn(ofSecretFile: path, mode: mode, setting: "KEYS_FILE") }
                }
            } catch {
                throw SimulatorError(.configuration, "key \(keyID ?? ""): \(error)")
            }
            return ProviderKey(
                teamID: teamID ?? "", keyID: keyID ?? "", publicKey: publicKey,
                environments: Set(environments?.compactMap { SimulatorEnvironment(rawValue: $0) } ?? []), topics: topics,
                isSuspended: isSuspended)
        }

        private func path(_ path: String, _ folder: URL) -> String {
            path.hasPrefix("/") ? path : folder.appending(path: path).path()
        }
    }
}
