import Foundation
import Synchronization

/// The file `processes`: id, start time (proc(5), field 22) and name of every started process, so that `deploy/chaos` can end exactly the
/// processes that a killed run left behind.
final class ProcessList: Sendable {
    private let file: Mutex<FileHandle>

    init(path: String) throws {
        try Data().write(to: URL(filePath: path))
        file = Mutex(try FileHandle(forWritingTo: URL(filePath: path)))
    }

    func add(_ name: String, _ id: Int32) {
        let birth = ProcessFacts.birth(of: id) ?? "0"
        file.withLock { file in
            do { try file.write(contentsOf: Data("\(id) \(birth) \(name)\n".utf8)) } catch { say("the list of processes: \(error)") }
        }
    }
}
